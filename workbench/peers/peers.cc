#include "workbench/peers/make_peers.h"

extern "C" __attribute__((visibility("default"))) void pinch_make_peers(const pinch::peers::PeerProblem& problem,
                                                                        pinch::peers::PeerList& list) {
#if defined(PINCH_HAVE_OPENBLAS)
  pinch::peers::add_openblas(problem, list);
#else
  list.absent.emplace_back("OpenBLAS sgemm: not there when this program was built (libopenblas-openmp-dev)");
#endif
#if defined(PINCH_HAVE_ONEDNN)
  pinch::peers::add_onednn(problem, list);
#else
  list.absent.emplace_back("oneDNN bf16: not there when this program was built (libdnnl-dev)");
#endif
}
