#include "bench/energy.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "bench/provenance.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

constexpr double kJoulesOfMicro = 1e-6, kJoulesOfMilli = 1e-3;
constexpr double kUnknownEnergy = std::numeric_limits<double>::quiet_NaN();

double counter(const std::string& file) {
  const std::string text = first_line(file);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? kUnknownEnergy : value;
}

// A package contains its cores, but not the memory. The platform (psys) contains all of them.
bool is_counted(const std::string& label) { return label.starts_with("package") || label == "dram"; }

}  // namespace

Powercap::Powercap(const std::string& folder) {
  const char* const given = std::getenv("MPIQ_POWERCAP");
  const std::string root = !folder.empty() ? folder : given != nullptr ? given : "/sys/class/powercap";
  for (const std::string& path : power_zones(root)) {
    if (!is_counted(first_line(path + "/name"))) continue;
    const double range = counter(path + "/max_energy_range_uj"), now = counter(path + "/energy_uj");
    if (!(range > 0) || !(now >= 0)) {
      zones_.clear();  // a part of the energy would look like all of it
      return;
    }
    zones_.push_back({path + "/energy_uj", range, now});
  }
}

void Powercap::start() {
  for (Zone& zone : zones_) zone.start_uJ = counter(zone.file);
}

double Powercap::joules() const {
  double sum = 0;
  for (const Zone& zone : zones_) {
    const double used = counter(zone.file) - zone.start_uJ;
    sum += used < 0 ? used + zone.range_uJ : used;
  }
  return sum * kJoulesOfMicro;
}

std::unique_ptr<GpuEnergy> GpuEnergy::open(const std::string& uuid) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open
  if (library == nullptr) return nullptr;
  const auto begin = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto find =
      reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByUUID"));
  const auto read = reinterpret_cast<Read>(dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"));
  void* device = nullptr;
  unsigned long long millijoules = 0;
  if (begin == nullptr || find == nullptr || read == nullptr || begin() != 0 ||
      find(uuid.c_str(), &device) != 0 || read(device, &millijoules) != 0)
    return nullptr;
  return std::unique_ptr<GpuEnergy>(new GpuEnergy(device, read));
}

double GpuEnergy::read_mJ() const {
  unsigned long long millijoules = 0;
  return read_(device_, &millijoules) == 0 ? static_cast<double>(millijoules) : kUnknownEnergy;
}

double GpuEnergy::joules() const { return (read_mJ() - start_mJ_) * kJoulesOfMilli; }

EnergyMeter::EnergyMeter(bool of_machine, const std::string& uuid) {
  if (of_machine) {
    processors_ = std::make_unique<Powercap>();
    known_ = processors_->counts();
  }
  if (!uuid.empty()) {
    gpu_ = GpuEnergy::open(uuid);
    known_ = known_ && gpu_ != nullptr;
  }
}

void EnergyMeter::start() {
  if (processors_) processors_->start();
  if (gpu_) gpu_->start();
}

double EnergyMeter::joules() const {
  if (!known_) return kUnknownEnergy;
  return (processors_ ? processors_->joules() : 0) + (gpu_ ? gpu_->joules() : 0);
}

Energy energy_of(EnergyMeter& meter, std::int32_t calls, MPI_Comm comm,
                 const std::function<void(std::size_t)>& call) {
  dissemination_barrier(comm);
  meter.start();
  const double began = now_s();
  for (std::int32_t i = 0; i < calls; ++i) call(static_cast<std::size_t>(i));
  dissemination_barrier(comm);
  std::array<double, 2> seen{meter.joules(), now_s() - began};
  PMPI_Allreduce(MPI_IN_PLACE, seen.data(), 1, MPI_DOUBLE, MPI_SUM, comm);
  PMPI_Allreduce(MPI_IN_PLACE, seen.data() + 1, 1, MPI_DOUBLE, MPI_MAX, comm);
  return {seen[0] / calls, seen[0] / seen[1], calls};
}

}  // namespace mq::bench
