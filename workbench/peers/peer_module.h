// Opens the module that holds the peers.
#pragma once

#include "workbench/peers/peer.h"

namespace pinch::peers {

/// Peers for the problem; where the module cannot be opened, none, and `absent` says why. The module lies beside the
/// program, or in ../libexec/pinch where that is installed, and stays open until the process ends.
PeerList make_peers(const PeerProblem& problem);

}  // namespace pinch::peers
