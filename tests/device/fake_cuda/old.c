/* A driver from before most functions, to be refused. */
__attribute__((visibility("default"))) int cuInit(unsigned flags);
int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}
