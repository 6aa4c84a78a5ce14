// The policy language: what is accepted is printed and read again as itself, and choices can be made of it.
#include "mpi_quant/policy/policy.hpp"

#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mq::fuzz::require;
  mq::fuzz::Bytes bytes(data, size);
  const std::vector<std::byte> memory = bytes.rest();
  const std::string_view text(reinterpret_cast<const char*>(memory.data()), memory.size());
  const auto method = mq::parse_method(text);
  if (method.ok()) {
    const auto again = mq::parse_method(to_string(*method));
    require(again.ok() && *again == *method, "a printed method is read as itself");
  }
  const auto policy = mq::Policy::parse(text);
  if (!policy.ok()) {
    require(!policy.status().text().empty(), "a policy that is refused is refused with a reason");
    return 0;
  }
  const std::string printed = policy->to_string();
  const auto again = mq::Policy::parse(printed);
  require(again.ok() && *again == *policy, "a printed policy is read as itself");
  require(again->to_string() == printed, "and printed the same");
  for (const std::uint64_t size_of_call : {0ul, 4096ul, 65536ul, 1ul << 20, 1ul << 40})
    for (const bool intercepted : {false, true}) {
      mq::CallKey call;
      call.bytes = size_of_call;
      call.ranks = 4;
      call.comm = "*?a";
      call.site = text;
      call.intercepted = intercepted;
      const mq::Rule* const rule = policy->rule_for(call);
      require(policy->choose(call) == again->choose(call), "it makes the same choices");
      require(rule == nullptr || rule->may_match(call), "a rule that decides may match");
      require(rule == nullptr || rule->method.exact() || policy->prospect(call).may_compress,
              "a prospect knows of every rule that decides");
      require(!intercepted || rule == nullptr || size_of_call >= policy->floor_bytes(), "the floor holds");
    }
  return 0;
}
