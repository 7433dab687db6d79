// Defaults of AddressSanitizer for what links MLIR. LLVM's headers, compiled into our code, poison the memory
// of LLVM's arenas; LLVM's libraries, which are built without the sanitizer, do not unpoison it.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }
