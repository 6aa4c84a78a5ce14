// Which degrees a butterfly should have, and what a reduction with given degrees costs, by a model of the
// network and of how lists shrink when they are united.
//
// In layer l, after the first l - 1 have united K ranks' lists, a rank holds union(K) / K entries; it sends
// (d - 1) / d of them in d - 1 messages, down and up, and merges what it gets. So a layer's cost depends on K
// and d alone, and the cheapest factorisation of every M <= P is found by dynamic programming over K: P ln P
// layers are priced. Few layers of large degree send little but in many small messages; Zhao and Canny's
// rule, the largest degree whose messages are not below the efficient size, is what the minimum amounts to.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/survey.hpp"
#include "sparse_allreduce/union_model.hpp"
#include "sparse_allreduce/values.hpp"

namespace mq::sparse {

struct KylixLoad {
  UnionModel out, in;
  double value_bytes = 4;     // of an entry
  double position_bytes = 0;  // of an index that travels with the values; 0: by routes
};

// Of one rank on average, and the longest message.
struct LayerPrediction {
  int degree = 0;                             // 0: the fold of ranks that the degrees leave over
  double out_entries = 0, in_entries = 0;     // of a rank's lists before the layer
  double down_messages = 0, up_messages = 0;  // sent
  double down_bytes = 0, up_bytes = 0;        // sent, with headers
  double message_bytes = 0;                   // of a message down
  double merged_entries = 0;                  // down and up
  double seconds = 0;
};
struct KylixPrediction {
  std::vector<int> degrees;
  std::vector<LayerPrediction> layers;
  double bytes = 0, seconds = 0;
};

// degrees: that check_degrees likes.
KylixPrediction predict_kylix(const Network& network, int ranks, const KylixLoad& load,
                              const std::vector<int>& degrees);
// With the cheapest degrees.
KylixPrediction plan_kylix(const Network& network, int ranks, const KylixLoad& load);

// The model of lists like those surveyed.
KylixLoad load_of(const Survey& survey, const Entry& entry, bool with_positions);

// For lists like those surveyed; the same on all ranks.
std::vector<int> choose_degrees(const Network& network, const Survey& survey, const Entry& entry,
                                bool with_positions);

// What a person asks the model.
struct KylixQuestion {
  int ranks = 1;
  double size = 0, entries = 0;  // indices there are, and on each rank: both out and in
  double alpha = 0;              // of the power law; 0: all indices are equally frequent
  std::size_t stride = 1, element_bytes = 4;
  bool with_positions = false;  // lists change with every call
  std::vector<int> degrees{};   // empty: the cheapest
};
// Lines of text: the degrees and why, a table of layers, and how direct exchange compares. Degrees that
// cannot be used give one line that says so.
std::vector<std::string> explain_kylix(const KylixQuestion& question, const Network& network);

}  // namespace mq::sparse
