// Refused with: anything
int answer() {
  return undeclared;
}
