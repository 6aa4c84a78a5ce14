// Whether a method is accepted depends on the method and the type of the elements, and never on the length of
// the vector: a short vector in a program that ran is no error.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mpi_quant/engine/reduction.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

using kernels::Element;

// Codecs with the preset parameters, with each extreme, and some with two; in two messages too.
std::vector<std::string> methods() {
  std::vector<std::string> all{"fft(bits=32,keep=0.9)",
                               "fft(bits=32,keep=1)",
                               "topk(k=1,block=64)",
                               "topk(k=1,block=64,format=u16)",
                               "onebit(block=32,split=mean)",
                               "adacomp(bin=8,block=64)",
                               "meprop(k=1,lines=1)",
                               "meprop(k=0.001,lines=1024)",
                               "topk(k=0.3) memory=3pc",
                               "meprop(k=0.3) memory=3pc",
                               "bf16 memory=3pc",
                               "raw memory=ef21",
                               "fft(bits=32,keep=0.4) memory=3pc"};
  for (const kernels::Codec& codec : kernels::codecs())
    for (const kernels::Params& params : param_sets(codec)) {
      Method m;
      m.codec = &codec;
      m.params = params;
      if (codec.conflict(params).empty()) all.push_back(to_string(m));
    }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

class Lengths : public Api {
 protected:
  static MPI_Datatype type_of(Element element) {
    if (element == Element::f32) return MPI_FLOAT;
    if (element == Element::f64) return MPI_DOUBLE;
    MPI_Datatype half = MPI_DATATYPE_NULL;
    const int code = element == Element::f16 ? MPIQ_Type_float16(&half) : MPIQ_Type_bfloat16(&half);
    EXPECT_EQ(code, MPI_SUCCESS);
    return half;
  }
};

TEST_F(Lengths, decide_about_no_method) {
  if (size == 1) return;
  const std::vector<double> x(10000);  // zeros of any type
  std::vector<double> y(x.size());
  for (const Element element : kernels::kElements) {
    const MPI_Datatype type = type_of(element);
    std::size_t accepted = 0, refused = 0;
    for (const std::string& method : methods()) {
      int first = 0;
      for (const MPI_Count n : {8191, 1,  2,  15, 16,  17,  29,  30,  31,  32,  33,  63,
                                64,   65, 98, 99, 127, 129, 200, 257, 300, 301, 400, 2049}) {
        const Info info{{"mpiq_method", method}, {"mpiq_key", "of this call"}};
        const int code = MPIQ_Allreduce(x.data(), y.data(), n, type, MPI_SUM, comm, info);
        if (n == 8191) {
          first = code;
          (code == MPI_SUCCESS ? accepted : refused) += 1;
          if (code != MPI_SUCCESS) expect_error_everywhere(code, "sends more than the vector");
        }
        ASSERT_EQ(code == MPI_SUCCESS, first == MPI_SUCCESS)
            << method << " " << name(element) << " n=" << n << ": " << (code != 0 ? text_of(code) : "");
        ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
      }
    }
    EXPECT_GT(accepted, 100u) << name(element);
    EXPECT_EQ(refused > 0, true) << name(element);
  }
}

// What an accepted method may send more than the vector has: headers, and what one block is padded by.
TEST(Bounds, of_accepted_methods_exceed_the_vector_by_less_than_a_block) {
  for (const std::string& text : methods()) {
    const Result<Method> method = parse_method(text);
    ASSERT_TRUE(method.ok()) << text;
    const kernels::MemoryRule& rule = method->memory_rule();
    for (const Element element : kernels::kElements) {
      Reduction reduction;
      reduction.codec = method->codec;
      reduction.params = method->params;
      reduction.element = element;
      reduction.memory.rule = &rule;
      reduction.memory.ops = rule.ops == nullptr ? nullptr : rule.ops(element, kernels::Isa::scalar);
      reduction.memory.terms = rule.terms(method->memory_params);
      if (outgrows_vectors(reduction)) continue;
      const std::size_t block = method->codec->block(method->params),
                        messages = reduction.memory.terms.messages;
      for (std::size_t n = 0; n <= 400; ++n) {
        const std::size_t bytes = n * kernels::element_bytes(element),
                          of_block = std::min(n, block) * kernels::element_bytes(compute_element(element));
        EXPECT_LE(coded_bound(reduction, n), bytes + bytes / 1024 + 64 + messages * of_block)
            << text << " " << name(element) << " n=" << n;
      }
    }
  }
}

}  // namespace
}  // namespace mq::test
