#include "workbench/sweep/subject_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pinch::sweep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead = R"(name = "matmul"
command = ["./matmul", "--tile=${tile}", "${m}", "$HOME"]
[metric]
kind = "json"
name = "ms"
[problem]
m = [64, 128]
k = 256
[knobs.tile]
values = {from = 8, to = 64, times = 2}
default = 16
[knobs.layout]
kind = "env"
values = ["row", "column"]
default = "row"
)";

Result<Subject> parse(const std::string& rest, std::string head = kHead) {
  return parse_subject(head + rest, "folder/subject.toml");
}
std::string error_of(const std::string& rest, const std::string& head = kHead) {
  const auto subject = parse(rest, head);
  return subject.ok() ? "no error" : subject.error().message();
}

TEST(SubjectFile, ReadsKnobsAndProblemInTheOrderOfTheFile) {
  const auto subject = parse("");
  ASSERT_TRUE(subject.ok()) << subject.error().message();
  EXPECT_THAT(subject->names(), ElementsAre("m", "k", "tile", "layout"));
  EXPECT_THAT(subject->knobs[0].values, ElementsAre(Value(8L), Value(16L), Value(32L), Value(64L)));
  EXPECT_EQ(subject->knobs[0].standard, 1U);
  EXPECT_EQ(subject->knobs[1].kind, KnobKind::kEnv);
  EXPECT_EQ(subject->knobs[1].target, "LAYOUT");
  EXPECT_THAT(subject->folder, testing::EndsWith("/folder"));
}

TEST(SubjectFile, OrdersLetsByWhatTheyRead) {
  const auto subject =
      parse("[let]\na = \"b + 1\"\nb = \"tile * 2\"\n[[constraint]]\nrequire = \"a < 100\"\nreason = \"x\"\n");
  ASSERT_TRUE(subject.ok()) << subject.error().message();
  EXPECT_EQ(subject->lets[0].first, "b");
  EXPECT_EQ(subject->rules[0].id, "a < 100");
}

TEST(SubjectFile, NamesTheLineAndWhatIsAllowed) {
  EXPECT_THAT(error_of("x = = 1"), HasSubstr("folder/subject.toml:16: not TOML"));
  EXPECT_THAT(error_of("[limit]\ntimeout_s = 1\n"),
              HasSubstr("subject.toml:16: a subject has no key \"limit\"; did you mean limits?"));
  EXPECT_THAT(error_of("[limits]\ntimeout = 1\n"),
              HasSubstr(":17: limits has no key \"timeout\"; did you mean timeout_s?"));
  EXPECT_THAT(error_of("[limits]\ntimeout_s = \"long\"\n"), HasSubstr(":17: 'timeout_s' is a number above 0"));
  EXPECT_THAT(error_of("[[constraint]]\nrequire = \"tle < 8\"\nreason = \"x\"\n"),
              HasSubstr(":17: column 1 of \"tle < 8\": unknown_name: \"tle\" is no knob, problem axis or [let] name; "
                        "did you mean tile"));
  EXPECT_THAT(error_of("[[constraint]]\nrequire = \"tile <\"\nreason = \"x\"\n"),
              HasSubstr(":17: column 7 of \"tile <\": unexpected_end"));
  EXPECT_THAT(error_of("[[constraint]]\nrequire = \"tile < 8\"\n"),
              HasSubstr(":16: the key 'reason' is missing; it is a text in quotes"));
  EXPECT_THAT(error_of("[let]\na = \"b\"\nb = \"c + tile\"\nc = \"a\"\n"),
              HasSubstr(":17: cyclic_definition: a -> b -> c -> a"));
  EXPECT_THAT(error_of("[knobs.stages]\nvalues = [1, 2]\ndefault = 3\n"),
              HasSubstr(":18: default 3 is no value of knob stages; values: 1, 2"));
  EXPECT_THAT(error_of("[knobs.stages]\nvalues = [1, 2]\ndefault = 1\n"),
              HasSubstr(":16: knob stages is of kind arg, so ${stages} must stand in 'command'"));
  EXPECT_THAT(error_of("[knobs.m]\nkind = \"env\"\nvalues = [1]\ndefault = 1\n"), HasSubstr("the name \"m\" is taken"));
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"flag\"\nvalues = [1]\ndefault = 1\n"),
              HasSubstr(":17: 'kind' is one of: arg, env, define"));
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"env\"\nvalues = [1, 1]\ndefault = 1\n"),
              HasSubstr("the value 1 appears twice"));
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"env\"\nvalues = {from = 4, to = 1}\ndefault = 1\n"),
              HasSubstr("a range goes from <= to"));
  EXPECT_THAT(error_of("[inputs.a]\ndtype = \"f31\"\nshape = [\"m\"]\n"), HasSubstr(":17: 'dtype' is one of: bf16"));
  EXPECT_THAT(error_of("[inputs.a]\ndtype = \"f32\"\nshape = [\"tile\"]\n"), HasSubstr("unknown_name: \"tile\""));
  EXPECT_THAT(
      error_of("", "name = \"x\"\ncommand = [\"./x\"]\n"),
      HasSubstr(
          ":1: the key 'metric' is missing; it is a table, [metric], whose 'kind' is one of: json, regex, file, wall"));
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = [\"./x\"]\n[metric]\nname = \"ms\"\n"),
              HasSubstr(":3: the key 'kind' is missing; it is one of: json, regex, file, wall"));
  EXPECT_THAT(error_of("[inputs.a]\nshape = [\"m\"]\n"),
              HasSubstr("the key 'dtype' is missing; it is one of: bf16, f16"));
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"env\"\ndefault = 1\n"),
              HasSubstr(":16: the key 'values' is missing; it is a value, a list of them, or {from, to, step}"));
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = [\"./x\", \"${tyle}\"]\n[metric]\nkind = \"wall\"\n"),
              HasSubstr(":2: ${tyle} is unknown; there are: inputs"));
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = \"./x\"\n[metric]\nkind = \"wall\"\n"),
              HasSubstr(":2: 'command' is a list"));
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = [\"./x\"]\n[metric]\nkind = \"regex\"\npattern = \"([0-9]\"\n"),
              HasSubstr(":5: '([0-9]' is no regular expression: missing )"));
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = [\"./x\"]\n[metric]\nkind = \"regex\"\npattern = '(a)\\1'\n"),
              HasSubstr(":5: '(a)\\1' is no regular expression: invalid escape sequence"));
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = [\"./x\"]\n[metric]\nkind = \"regex\"\npattern = \"[0-9]\"\n"),
              HasSubstr("'pattern' has one group"));
}

TEST(SubjectFile, RefusesWhatNoProgramCanBeGiven) {
  const std::string env = "values = [1]\ndefault = 1\n";
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"env\"\ntarget = \"A=B\"\n" + env),
              HasSubstr(":16: \"A=B\" is no variable's name: at least one character, none of them '=' or NUL"));
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"env\"\ntarget = \"\"\n" + env), HasSubstr("\"\" is no variable's name"));
  EXPECT_THAT(error_of("[environment]\n\"A=B\" = 1\n"), HasSubstr(":17: \"A=B\" is no variable's name"));
  EXPECT_THAT(error_of("[environment]\n\"A\\u0000\" = 1\n"), HasSubstr(":17: \"A\\x00\" is no variable's name"));
  EXPECT_THAT(error_of("[knobs.s]\nkind = \"define\"\ntarget = \"F(x)\"\n" + env),
              HasSubstr("\"F(x)\" is no macro's name"));
  for (const char* nul : {"[knobs.s]\nkind = \"env\"\ntarget = \"A\\u0000\"\n", "[environment]\nA = \"b\\u0000\"\n",
                          "[knobs.s]\nkind = \"env\"\nvalues = [\"\\u0000\"]\n"}) {
    EXPECT_THAT(error_of(nul), HasSubstr("holds a NUL")) << nul;
  }
  EXPECT_THAT(error_of("", "name = \"x\"\ncommand = [\"./x\", \"a\\u0000b\"]\n[metric]\nkind = \"wall\"\n"),
              HasSubstr(":2: \"a\\x00b\" holds a NUL"));
}

TEST(SubjectFile, RefusesInputsThatLeaveTheirFolder) {
  for (const char* name : {"../../../esc", "", "a/b", ".", "..", ".a", "a b", "/a"}) {
    EXPECT_THAT(error_of(std::string("[inputs.\"") + name + "\"]\ndtype = \"f32\"\nshape = [1]\n"),
                AllOf(HasSubstr(":16: input \"" + std::string(name) + "\" cannot be a file's name"),
                      HasSubstr("use letters, digits")))
        << name;
  }
  EXPECT_THAT(error_of("[limits]\ngpus = -1\n"), HasSubstr(":17: gpus is -1; 0 to 1024 are allowed"));
}

TEST(SubjectFile, Substitutes) {
  const Values values = {{"tile", Value(16L)}, {"binary", Value(std::string("/b"))}};
  EXPECT_EQ(substitute("${binary}/x${tile}$A $${tile}$", values).value(), "/b/x16$A ${tile}$");
  EXPECT_FALSE(substitute("${tyle}", values).ok());
  EXPECT_FALSE(substitute("${tile", values).ok());
}

}  // namespace
}  // namespace pinch::sweep
