#include "workbench/sweep/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

namespace pinch::sweep {
namespace {

using testing::HasSubstr;

Subject subject_of(const std::string& rest, int knobs, int values, const std::string& head = "") {
  std::string text = "name = \"x\"\ncommand = [\"./x\"]\n" + head + "[metric]\nkind = \"wall\"\n";
  for (int i = 0; i < knobs; ++i) {
    text += "[knobs.k" + std::to_string(i) + "]\nkind = \"env\"\nvalues = {from = 1, to = " + std::to_string(values) +
            "}\ndefault = 1\n";
  }
  auto subject = parse_subject(text + rest, "x.toml");
  EXPECT_TRUE(subject.ok()) << subject.error().message();
  return std::move(*subject);
}
std::string rule(const std::string& require, const std::string& kind = "constraint") {
  return "[[" + kind + "]]\nrequire = \"" + require + "\"\nreason = \"because\"\n";
}

std::set<Choice> legal(const Space& space, std::vector<double>* excluded = nullptr) {
  std::set<Choice> found;
  const auto done = space.each_legal(
      [&](const Choice& choice) {
        EXPECT_TRUE(found.insert(choice).second) << "visited twice: " << space.text(choice);
        return true;
      },
      excluded);
  EXPECT_TRUE(done.ok()) << done.error().message();
  return found;
}

// Every combination, one by one.
std::set<Choice> by_force(const Space& space, const Subject& subject, std::vector<double>& excluded) {
  std::set<Choice> found;
  excluded.assign(subject.rules.size(), 0);
  Choice each(subject.knobs.size(), 0);
  for (bool more = true; more;) {
    const auto broken = space.broken(each);
    EXPECT_TRUE(broken.ok());
    if (*broken == nullptr) {
      found.insert(each);
    } else {
      excluded[static_cast<std::size_t>(*broken - subject.rules.data())] += 1;
    }
    more = false;
    for (std::size_t i = 0; i < each.size() && !more; ++i) {
      more = ++each[i] < subject.knobs[i].values.size();
      if (!more) each[i] = 0;
    }
  }
  return found;
}

TEST(SweepSpace, FindsWhatForceFinds) {
  const std::vector<std::string> rules = {
      rule("k0 * k1 <= 6"),       rule("k2 % k3 == 0"),     rule("total + k4 < 14"),
      rule("k0 < k1 or k4 == 2"), rule("max(k1, k2) != 3"), rule("ceil_div(k3, 2) >= k4 - 1"),
      rule("not (k0 == k4)"),     rule("area % 2 == 0"),    rule("k1 + k2 + k3 == 7")};
  std::mt19937 random(3);
  for (int trial = 0; trial < 40; ++trial) {
    std::string chosen = "[let]\ntotal = \"k0 + k1 + k2\"\narea = \"k3 * total\"\n";
    for (const std::string& each : rules) chosen += random() % 3 == 0 ? each : "";
    const Subject subject = subject_of(chosen, 5, 4);
    const Space space(subject, {});
    std::vector<double> excluded, refused_by_force;
    const auto found = legal(space, &excluded);
    EXPECT_EQ(found, by_force(space, subject, refused_by_force)) << chosen;
    if (!subject.rules.empty()) {
      const double refused = std::accumulate(excluded.begin(), excluded.end(), 0.0);
      EXPECT_EQ(refused + static_cast<double>(found.size()), space.raw_size()) << "each combination is counted once";
    }
  }
}

TEST(SweepSpace, ListsAFewOfABillionWithoutVisitingThem) {
  const Subject subject =
      subject_of(rule("k0 * k1 * k2 <= 20") + rule("k3 + k4 <= k0 + 2") + rule("k5 == k6") + rule("k7 % k5 == 0") +
                     rule("k8 * k7 <= 24 and k6 * k8 >= 18") + rule("k3 == k4 or k2 > 2"),
                 9, 10);
  const Space space(subject, {});
  EXPECT_EQ(space.raw_size(), 1e9);
  const auto found = legal(space);
  EXPECT_GT(found.size(), 5'000U);
  EXPECT_LT(found.size(), 50'000U);
  for (const Choice& choice : found) ASSERT_EQ(space.broken(choice).value(), nullptr);
}

TEST(SweepSpace, FindsTheNearestPointWithoutVisitingTheOthers) {
  const Subject subject = subject_of(rule("k0 + k1 + k2 + k3 + k4 + k5 + k6 + k7 + k8 > 21"), 9, 10);
  const auto nearest = Space(subject, {}).nearest_legal(Choice(9, 0), 1'000'000);
  ASSERT_TRUE(nearest.ok());
  EXPECT_FALSE(nearest->gave_up);
  EXPECT_EQ(nearest->changed, 2U) << "two knobs of 1 to 10 besides seven that are 1 reach 22";
  EXPECT_EQ(nearest->choice, (Choice{0, 0, 0, 0, 0, 0, 0, 4, 9}));
  const Subject none = subject_of(rule("(k0 * k1 + k2 * k3) % 977 == 976"), 4, 10);
  EXPECT_FALSE(Space(none, {}).nearest_legal(Choice(4, 0), 1'000'000)->choice);
  EXPECT_FALSE(Space(none, {}).nearest_legal(Choice(4, 0), 1'000'000)->gave_up);
}

TEST(SweepSpace, ASearchWithoutAnEndIsBoundedAndStopped) {
  const Subject subject = subject_of(rule("194 * (k0 + k1 + k2 + k3 + k4 + k5 + k6 + k7 + k8) % 194 == 1"), 9, 10);
  const auto nearest = Space(subject, {}).nearest_legal(Choice(9, 0), 20'000);
  ASSERT_TRUE(nearest.ok());
  EXPECT_TRUE(nearest->gave_up);
  EXPECT_FALSE(nearest->choice);
  int asked = 0;
  const Space stopped(subject, {}, [&] { return ++asked == 3; });
  const auto done = stopped.each_legal([](const Choice&) { return true; }, nullptr);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kInterrupted);
}

TEST(SweepSpace, PointsOfDifferentValuesHaveDifferentTexts) {
  Subject subject;
  subject.knobs.resize(2);
  subject.knobs[0].name = "a";
  subject.knobs[0].values = {std::string("x"),   std::string("x,b=y"), std::string("\"x\""),
                             std::int64_t{16},   std::string("16"),    true,
                             std::string("true")};
  subject.knobs[1].name = "b";
  subject.knobs[1].values = {std::string("z"), std::string("y,b=z")};
  const Space space(subject, {});
  std::set<std::string> texts;
  for (const Choice& choice : legal(space)) {
    texts.insert(space.text(choice));
    EXPECT_EQ(space.parse(space.text(choice)).value(), choice) << space.text(choice);
  }
  EXPECT_EQ(texts.size(), 14U);
  EXPECT_EQ(space.text({0, 0}), "a=x,b=z");
}

TEST(SweepSpace, NamesTheRuleThatRefuses) {
  const Subject subject = subject_of(rule("k0 < 3") + rule("k1 < 3", "contract"), 2, 4);
  const Space space(subject, {});
  EXPECT_EQ(space.broken({3, 0}).value()->id, "k0 < 3");
  EXPECT_TRUE(space.broken({0, 3}).value()->contract);
  EXPECT_EQ(space.broken({0, 0}).value(), nullptr);
}

TEST(SweepSpace, ReportsAnExpressionThatFailsAtAPoint) {
  const Subject subject = subject_of("[let]\nhalf = \"floor_div(8, k0 - 2)\"\n" + rule("half > 0"), 1, 4);
  const auto done = Space(subject, {}).each_legal([](const Choice&) { return true; }, nullptr);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("division_by_zero"));
  // A rule that keeps the point out is enough.
  const Subject guarded =
      subject_of("[let]\nhalf = \"floor_div(8, k0 - 2)\"\n" + rule("k0 > 2") + rule("half > 0"), 1, 4);
  EXPECT_EQ(legal(Space(guarded, {})).size(), 2U);
}

TEST(SweepSpace, TextAndParseAreInverses) {
  const Subject subject = subject_of("", 3, 4);
  const Space space(subject, {});
  for (const Choice& choice : legal(space)) EXPECT_EQ(space.parse(space.text(choice)).value(), choice);
  EXPECT_THAT(space.parse("k9=1").error().message(), HasSubstr("\"k9\" is no knob; did you mean"));
  EXPECT_THAT(space.parse("k0=9").error().message(), HasSubstr("\"9\" is no value of knob k0"));
}

TEST(SweepSpace, CrossesTheAxesOfTheProblem) {
  const Subject subject = subject_of("", 1, 2, "[problem]\nm = [1, 2]\nk = [3, 4]\n");
  const auto list = problems(subject);
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(problem_text(subject, list[1]), "m=1,k=4");
}

}  // namespace
}  // namespace pinch::sweep
