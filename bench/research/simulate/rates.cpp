#include "bench/research/simulate/rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace mq::sim {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kWorks{"encode",           "encode+feedback",
                                                 "decode",           "decode+streamed",
                                                 "decode+add+apart", "decode+add+apart+streamed"};

template <class Words, class F>
int position(const Words& words, const F& is) {
  const auto at = std::find_if(words.begin(), words.end(), is);
  return at == words.end() ? -1 : static_cast<int>(at - words.begin());
}

double unit_s(const std::string& unit) {
  return unit == "ns" ? 1e-9 : unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : unit == "s" ? 1 : 0;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == '/')
      words.emplace_back();
    else
      words.back().push_back(c);
  return words;
}

}  // namespace

std::string_view name(Work work) { return kWorks[static_cast<std::size_t>(work)]; }

Result<Rates> Rates::read(const std::string& path, std::string_view isa) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return Status{Code::bad_argument, path + ": cannot be read"};
  Result<Rates> rates = parse(text, isa);
  if (!rates.ok()) return Status{rates.status().code(), path + ": " + rates.status().text()};
  return rates;
}

// The name of a row is CODEC/WORK/TYPE/ISA/nKiB[/manual_time].
Result<Rates> Rates::parse(std::string_view json, std::string_view isa) try {
  const Json all = Json::parse(json);
  Rates rates;
  rates.isa_ = isa.empty() ? all.at("context").at("best_isa").get<std::string>() : std::string(isa);
  for (const Json& row : all.at("benchmarks")) {
    const std::vector<std::string> words = split(row.at("name").get<std::string>());
    if (words.size() < 5 || words[3] != rates.isa_) continue;
    const int work = position(kWorks, [&](std::string_view w) { return w == words[1]; });
    const int element =
        position(kernels::kElements, [&](kernels::Element e) { return kernels::name(e) == words[2]; });
    const double bytes = std::strtod(words[4].c_str(), nullptr) * 1024;
    const double seconds = row.at("real_time").get<double>() * unit_s(row.at("time_unit").get<std::string>());
    if (work < 0 || element < 0 || !(bytes > 0) || !(seconds > 0)) continue;
    rates.rows_[{words[0], static_cast<Work>(work), kernels::kElements[static_cast<std::size_t>(element)]}]
        .push_back({bytes, seconds / bytes});
  }
  for (auto& [key, rows] : rates.rows_)
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.vector_bytes < b.vector_bytes; });
  if (rates.rows_.empty())
    return Status{Code::bad_argument, "has no rows of mpiq-kernels for the instruction set " + rates.isa_};
  return rates;
} catch (const Json::exception& e) {
  return Status{Code::bad_argument, "is not what mpiq-kernels writes (" + std::string(e.what()) + ")"};
}

Rates Rates::constant(double byte_s) {
  Rates rates;
  rates.constant_byte_s_ = byte_s;
  return rates;
}

std::string Rates::missing(std::string_view codec, kernels::Element element) const {
  if (constant_byte_s_ >= 0) return {};
  for (std::size_t work = 0; work < kWorks.size(); ++work)
    if (!rows_.contains({std::string(codec), static_cast<Work>(work), element}))
      return "there are no rates of " + std::string(codec) + "/" + std::string(kWorks[work]) + "/" +
             std::string(kernels::name(element)) + "/" + isa_ + ": measure them with mpiq-kernels";
  return {};
}

double Rates::byte_s(std::string_view codec, Work work, kernels::Element element,
                     std::size_t vector_bytes) const {
  if (constant_byte_s_ >= 0) return constant_byte_s_;
  const std::vector<Row>& rows = rows_.find(Key{std::string(codec), work, element})->second;
  const auto length = static_cast<double>(vector_bytes);
  const auto above =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.vector_bytes >= length; });
  if (above == rows.begin()) return rows.front().byte_s;
  if (above == rows.end()) return rows.back().byte_s;
  const Row &low = *(above - 1), &high = *above;
  const double share = std::log(length / low.vector_bytes) / std::log(high.vector_bytes / low.vector_bytes);
  return low.byte_s + share * (high.byte_s - low.byte_s);
}

}  // namespace mq::sim
