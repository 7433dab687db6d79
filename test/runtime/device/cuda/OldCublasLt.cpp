// libcublasLt.so.13 that lacks nearly everything.
extern "C" int cublasLtGetVersion(void) { return 0; }
