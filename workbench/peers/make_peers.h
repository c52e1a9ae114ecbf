// What each peer's source gives to the module's one entry.
#pragma once

#include "workbench/peers/peer.h"

namespace pinch::peers {

void add_openblas(const PeerProblem& problem, PeerList& list);
void add_onednn(const PeerProblem& problem, PeerList& list);

}  // namespace pinch::peers
