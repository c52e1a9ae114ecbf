#include "src/core/nearest.h"

#include <gmock/gmock.h>

namespace pinch {
namespace {

using testing::ElementsAre;

TEST(EditDistance, CountsEachKindOfEditOnce) {
  EXPECT_EQ(edit_distance("tactics", "tactics"), 0u);
  EXPECT_EQ(edit_distance("tactics", "tactic"), 1u);
  EXPECT_EQ(edit_distance("tatics", "tactics"), 1u);
  EXPECT_EQ(edit_distance("tactixs", "tactics"), 1u);
  EXPECT_EQ(edit_distance("tatcics", "tactics"), 1u);  // two neighbours swapped
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(NearestNames, OffersTheNearestFirstAndKeepsTheGivenOrderOfTies) {
  const std::vector<std::string> names{"waves", "pr", "first", "cluster"};
  EXPECT_THAT(nearest_names("wave", names, 1), ElementsAre("waves"));
  EXPECT_THAT(nearest_names("xx", names, 2), ElementsAre("pr", "waves"));
  EXPECT_THAT(nearest_names("anything", {}, 3), ElementsAre());
}

TEST(DidYouMean, ReadsAsAQuestion) {
  const std::vector<std::string> names{"list", "rank", "study"};
  EXPECT_EQ(did_you_mean("lst", names, 1), "did you mean list?");
  EXPECT_EQ(did_you_mean("lst", names, 2), "did you mean list or rank?");
  EXPECT_EQ(did_you_mean("lst", {}, 2), "");
}

}  // namespace
}  // namespace pinch
