// Chooses the degrees of a butterfly and predicts what a reduction costs. It uses a model of the network and
// a model of how lists shrink when they are merged.
//
// Before layer l, the earlier layers have merged the lists of K ranks. So a rank holds union(K) / K entries.
// It sends (d - 1) / d of them in d - 1 messages, down and up, and merges what it receives. So the cost of a
// layer depends on K and d alone. Dynamic programming over K finds the cheapest factorisation of every M <=
// P; it evaluates P ln P layers.
//
// Few layers of large degree send fewer bytes, but in many small messages. The latencies of a layer's
// messages overlap; only what each further message costs the processor adds up (Network::further_s). Zhao and
// Canny's rule is to take the largest degree whose messages are not smaller than the efficient size.
// Minimising the cost leads to the same choice.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sparse_allreduce/list_stats.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/union_model.hpp"
#include "sparse_allreduce/values.hpp"

namespace mq::sparse {

struct KylixLoad {
  UnionModel out, in;
  double value_bytes = 4;     // of an entry
  double position_bytes = 0;  // of an index that travels with its value; 0: routes exist
};

// A prediction for one rank on average; message_bytes is the length of one message down.
struct LayerPrediction {
  int degree = 0;                             // 0: the fold of the ranks that the degrees leave over
  double out_entries = 0, in_entries = 0;     // of a rank's lists before the layer
  double down_messages = 0, up_messages = 0;  // sent
  double down_bytes = 0, up_bytes = 0;        // sent, with headers
  double message_bytes = 0;                   // of one message down
  double merged_entries = 0;                  // entries of both lists, down and up
  double seconds = 0;
};
struct KylixPrediction {
  std::vector<int> degrees;
  std::vector<LayerPrediction> layers;
  double bytes = 0, seconds = 0;
};

// The degrees must pass check_degrees.
KylixPrediction predict_kylix(const Network& network, int ranks, const KylixLoad& load,
                              const std::vector<int>& degrees);
// The same with the cheapest degrees.
KylixPrediction plan_kylix(const Network& network, int ranks, const KylixLoad& load);

// A model of lists with these statistics.
KylixLoad load_of(const ListStatsByRank& stats, const Entry& entry, bool with_positions);

// The cheapest degrees for lists with these statistics; the same on all ranks.
std::vector<int> choose_degrees(const Network& network, const ListStatsByRank& stats, const Entry& entry,
                                bool with_positions);

// The input of explain_kylix.
struct KylixQuestion {
  int ranks = 1;
  double size = 0, entries = 0;  // number of indices; indices in each rank's out list and in list
  double alpha = 0;              // exponent of the power law; 0: all indices are equally frequent
  std::size_t stride = 1, element_bytes = 4;
  bool with_positions = false;  // lists change with every call, so positions are sent too
  std::vector<int> degrees{};   // empty: the cheapest
};
// Explains a choice of degrees in lines of text: the degrees and the reason, a table of layers, and a
// comparison with direct exchange. If the degrees cannot be used, the result is one line that says so.
std::vector<std::string> explain_kylix(const KylixQuestion& question, const Network& network);

}  // namespace mq::sparse
