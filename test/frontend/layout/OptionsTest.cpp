// The table of options, and what reads it.
#include "frontend/layout/Options.h"
#include "test/Places.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>

using namespace mgc::frontend;

TEST(Options, EachNameIsOfOne) {
  std::set<std::string> names, keys;
  std::set<std::string_view> training;
  for (const LayoutOption &option : layoutOptions()) {
    EXPECT_TRUE(names.insert(option.flag).second) << option.flag;
    EXPECT_TRUE(keys.insert(option.key()).second) << option.key();
    for (const std::string &alias : option.aliases)
      EXPECT_TRUE(names.insert(alias).second) << alias;
    if (option.hasNegation)
      EXPECT_TRUE(names.insert(option.negation()).second) << option.negation();
    for (const ResolvedField &field : {option.training, option.ofBlocks})
      if (!std::holds_alternative<std::monostate>(field))
        EXPECT_TRUE(!nameOf(field).empty() && training.insert(nameOf(field)).second) << option.flag;
    if (!std::holds_alternative<std::monostate>(option.ofBlocks))
      EXPECT_EQ(nameOf(option.ofBlocks), option.key());
    EXPECT_FALSE(option.help.empty() || option.help.ends_with('.')) << option.flag;
    EXPECT_EQ(&optionOf(option.field), &option);
  }
  for (const OptionShorthand &shorthand : optionShorthands())
    EXPECT_TRUE(names.insert(shorthand.flag).second && names.contains(shorthand.of)) << shorthand.flag;
}

TEST(Options, FieldsOfProgramsAreDescribed) {
  std::ifstream file(mgc::testFile("../docs/dialect.md"));
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  mgc::forEachTrainingField(
      [&](std::string_view name, auto) { EXPECT_NE(page.find(fmt::format("`{}`", name)), std::string::npos) << name; });
}

TEST(Options, FlagsOfWhatIsGiven) {
  EXPECT_EQ(flagsOf({}), "");
  EXPECT_FALSE(isGiven({}));
  const LayoutOptions given{.tp = 2,
                            .zero = 1,
                            .sp = false,
                            .resetPositionIds = false,
                            .resetAttentionMask = true,
                            .schedule = "gpipe",
                            .contextTypes = {{"a2a", "all_gather"}},
                            .contextHierarchy = {{2, 4}}};
  EXPECT_TRUE(isGiven(given));
  EXPECT_EQ(flagsOf(given), "--tp 2 --cp-comm-type a2a,all_gather --hierarchical-context-parallel-sizes 2 4 --no-sp "
                            "--zero 1 --schedule gpipe --reset-attention-mask");
}

TEST(Options, AnOpenNumberIsSearchedOrLeftToMemory) {
  for (const LayoutOption &option : layoutOptions()) {
    EXPECT_FALSE(option.searched && option.searchedWords) << option.flag;
    if (!option.takesAuto())
      continue;
    LayoutOptions open{.gbs = 8};
    if (option.isSearchedCut)
      open.*std::get<OptionField<std::string>>(option.field) = kAutoCut;
    else
      open.*std::get<OptionField<int64_t>>(option.field) = kAuto;
    EXPECT_EQ(flagsOf(openOf(open)), option.flag + " auto");
    EXPECT_EQ(leavesToSearch(open), !option.orAuto) << option.flag;
  }
  EXPECT_FALSE(leavesToSearch({.tp = 2}));
}

TEST(Options, FlagsGoBeforeDefaults) {
  const LayoutOptions found = either({.tp = 2, .sp = false}, {.tp = 4, .pp = 3, .sp = true});
  EXPECT_EQ(found.tp, 2);
  EXPECT_EQ(found.pp, 3);
  EXPECT_EQ(found.sp, false);
}
