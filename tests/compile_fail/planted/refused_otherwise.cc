// Refused with: a message that no compiler has
int answer() {
#ifdef PINCH_FAULT
  return undeclared;
#else
  return 42;
#endif
}
