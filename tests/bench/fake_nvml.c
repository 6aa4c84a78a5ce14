/* What mpiq-bench uses of NVIDIA's management library, for bench_energy_test: one GPU, which takes 1.5 J
 * from one reading to the next. */
#include <string.h>

enum { kDone = 0, kNotFound = 6 };

static unsigned long long taken_mJ;

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device);
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules);

int nvmlInit_v2(void) { return kDone; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &taken_mJ;
  return strcmp(uuid, "GPU-fake") == 0 ? kDone : kNotFound;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  *millijoules = *(unsigned long long*)device += 1500;
  return kDone;
}
