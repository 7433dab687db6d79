// A library that is no plugin.
extern "C" int something(void) { return 1; }
