// The options of mgrun: each row is parsed, and processes that differ in it are refused where they must agree.
#include "runtime/train/RunSettings.h"
#include "runtime/train/TrainingOfRank.h"
#include "test/runtime/TempDir.h"
#include "tools/flags/FlagChecks.h"
#include "tools/run/RunFlags.h"

#include <map>

namespace mgc::tools {
namespace {

using Line = std::map<std::string, std::vector<std::string>>; // flags and their values
using Kind = OptionRange::Kind;

const RunOption &rowOf(const std::string &flag) { return *std::ranges::find(runOptions(), flag, &RunOption::flag); }

class RunOptions : public ::testing::Test {
protected:
  // A flag with a value that is not its default.
  void give(const RunOption &row, Line &line) const {
    if (const size_t off = row.names.find('!'); off != row.names.npos)
      line[row.names.substr(off + 1)] = {};
    else
      line[row.flag()] = row.isSwitch() ? std::vector<std::string>() : valueOf(row);
  }

  // The flags that a row cannot be given without.
  Line lineFor(const RunOption &row) const {
    Line line = {{"plan", {"folder"}}};
    if (row.flag() == "--log-interval") // it counts where there are timers
      give(rowOf("--timing-log-level"), line);
    if (row.group == "Processes")
      line.merge(
          Line{{"--rank", {"0"}}, {"--world-size", {"9"}}, {"--master-addr", {"there"}}, {"--master-port", {"9"}}});
    for (const std::string &flag : row.details.needs) {
      line.merge(lineFor(rowOf(flag)));
      give(rowOf(flag), line);
    }
    return line;
  }

  TrainingOptions parsed(const Line &line) const {
    TrainingOptions options;
    CLI::App app;
    addRunFlags(app, options);
    std::vector<std::string> words;
    for (const auto &[flag, values] : line) {
      words.insert(words.begin(), values.rbegin(), values.rend()); // the parser takes the last first
      if (flag.starts_with("-"))
        words.insert(words.begin() + std::ssize(values), flag);
    }
    try {
      app.parse(std::move(words));
    } catch (const CLI::ParseError &error) {
      ADD_FAILURE() << error.what();
    }
    std::vector<std::string> notes;
    const Status read = allOf({readCorpusFlags(options, notes), readRunFlags(options)});
    EXPECT_TRUE(read.isOk()) << read.message();
    return options;
  }

  std::vector<std::string> linesOf(const Line &line, plan::Optimizer rule) const {
    TrainingOptions options = parsed(line);
    options.optimizer.rule = rule;
    return identityOf(options, plan::Plan(), 0, "none").settings;
  }

  // The flags in which a process with the row's flag differs from one without, for a plan of its optimizer.
  std::vector<std::string> differencesBy(const RunOption &row) const {
    const Line line = lineFor(row);
    Line own = line;
    give(row, own);
    const plan::Optimizer rule = row.details.optimizer.value_or(plan::Optimizer::adamw);
    const std::vector<std::string> others = linesOf(line, rule), lines = linesOf(own, rule);
    EXPECT_EQ(lines.size(), others.size());
    std::vector<std::string> flags;
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines[i] != others[i])
        flags.push_back(lines[i].substr(0, lines[i].find(" = ")));
    return flags;
  }

private:
  test::TempDir folder_;
  std::string file_ = folder_.write("rates.json", "[0.5, 0.25]");

  std::vector<std::string> valueOf(const RunOption &row) const {
    if (row.flag() == "--split")
      return {"8,1,1"};
    if (!row.details.values.empty())
      return {"2", "2", "8"};
    switch (row.range.kind) {
    case Kind::file:
    case Kind::path:
      return {file_};
    case Kind::whole:
      return {std::to_string(std::min<int64_t>(row.details.needs.empty() ? 8 : 7, row.range.most))};
    case Kind::number:
      return {"0.25"};
    case Kind::words:
      return {row.range.words[1]};
    default:
      return {"x"};
    }
  }
};

TEST_F(RunOptions, EachNameIsOfOne) {
  std::set<std::string> names;
  for (const RunOption &row : runOptions()) {
    for (const std::string &name : splitAtCommas(row.names))
      EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(row.help.ends_with('.') && !row.help.ends_with("..")) << row.flag();
    EXPECT_TRUE(!row.isCompared() || !std::holds_alternative<SetWord>(row.member) || row.details.text) << row.flag();
  }
  EXPECT_GT(names.size(), 100u);
}

TEST_F(RunOptions, ProcessesThatDifferAreRefused) {
  for (const RunOption &row : runOptions()) {
    SCOPED_TRACE(row.flag());
    const std::vector<std::string> flags = differencesBy(row);
    const bool isNamed = std::ranges::find(flags, row.flag()) != flags.end();
    EXPECT_EQ(isNamed, row.isCompared());
    if (row.agrees == Agrees::no)
      EXPECT_TRUE(flags.empty()) << flags.front();
  }
}

TEST_F(RunOptions, AnotherFormIsCompared) {
  EXPECT_EQ(differencesBy(rowOf("--profile-json")), std::vector<std::string>{"--profile"});
  EXPECT_EQ(differencesBy(rowOf("--trace")), std::vector<std::string>{"--trace-steps"});
  EXPECT_EQ(differencesBy(rowOf("--lr-warmup-fraction")), std::vector<std::string>{"--lr-warmup-iters"});
}

// A run goes on from the checkpoints of earlier versions: flags and values are theirs.
TEST_F(RunOptions, SettingsOfACheckpoint) {
  const TrainingOptions options = parsed({{"plan", {"folder"}}, {"--data-path", {"3", "a/b", "1", "c"}}});
  const Settings expected = {{"--eod-token-id", "-1"},
                             {"--eod-mask-loss", "false"},
                             {"--tokenizer-type", "none"},
                             {"--tokenizer-model", ""},
                             {"--sft", "false"},
                             {"--chat-template", ""},
                             {"--chat-template-kwargs", ""},
                             {"--sft-learn", "answers"},
                             {"--sft-ignore-fields", "[]"},
                             {"--data-path", "3 b 1 c"},
                             {"--split", "0 to 0.969 of training"},
                             {"--pad-token-id", "-1"},
                             {"--dataloader-inter-document-masking", "false"},
                             {"--dataloader-type", "single"},
                             {"--no-data-sharding", "false"},
                             {"--mlm-probability", "0.15"},
                             {"--mask-token-id", "-1"},
                             {"--cls-token-id", "-1"},
                             {"--sep-token-id", "-1"},
                             {"--special-token-ids", "none"},
                             {"--train-iters", "100"},
                             {"--seed", "1234"}};
  EXPECT_EQ(dataSettings(options), expected);
}

TEST_F(RunOptions, RatesOfACheckpointAreThoseDone) {
  Line line = lineFor(rowOf("--lr-list"));
  give(rowOf("--lr-list"), line);
  const Settings all = optimizerSettings(parsed(line), 2), none = optimizerSettings(parsed(line), 0);
  EXPECT_EQ(all.front().first, "--lr-list");
  EXPECT_TRUE(all.front().second.starts_with("2 rates with the hash ")) << all.front().second;
  EXPECT_EQ(none.front().second, "none");
}

TEST_F(RunOptions, IdleOnesAreRefusedTogether) {
  const TrainingOptions options = parsed({{"plan", {"folder"}}});
  const Status effect = verifyEffect(
      options, [](const std::string &flag) { return flag == "--eval-iters" || flag == "--no-data-sharding"; });
  EXPECT_EQ(effect.message(), "--no-data-sharding: would do nothing: there is no --data-path and no "
                              "--train-data-path; leave it out\n--eval-iters: would do nothing: there is no "
                              "--eval-interval; leave it out");
}

} // namespace
} // namespace mgc::tools
