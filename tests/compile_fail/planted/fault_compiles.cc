// Refused with: anything
int answer() {
  return 42;
}
