// See Text.h. Three passes: words to tasks with a place in the text, numbers to a shape, then the checks of any orders.
#include "compiler/schedule/Text.h"

#include "compiler/schedule/CheckOrders.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Problems.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace mgc::schedule {
namespace {

struct Word {
  std::string_view text;
  int64_t line = 0, column = 0; // from 1
};

struct TextTask {
  Word word;
  TaskKind kind = TaskKind::forward;
  int64_t global = -1, microbatch = 0; // global -1: the word has none
  bool paired = false;                 // with the task before it
};

std::string placeOf(const Word &word) { return fmt::format("line {} column {}", word.line, word.column); }

// As much of a word as a message can show.
std::string shown(std::string_view text) {
  constexpr size_t most = 24;
  std::string result;
  for (char c : text.substr(0, most))
    result += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text.size() > most ? result + "..." : result;
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isBreak(char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; }

// The number that the text starts with, which is taken off; nothing where it has none or one beyond 64 bits.
std::optional<int64_t> takeNumber(std::string_view &text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.starts_with('-'))
    return std::nullopt;
  text.remove_prefix(size_t(end - text.data()));
  return number;
}

// --- Words ---

class TextReader {
public:
  Status read(std::string_view text) {
    for (int64_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      readLine(text.substr(0, end), line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (problems.empty() && rows.empty())
      problems.add("has no tasks; expected one row per stage, such as \"stage 0: F0 B0\"");
    return problems.status();
  }

  std::vector<std::vector<TextTask>> rows; // by stage
  int64_t tasks = 0;
  Problems problems;

private:
  void readLine(std::string_view line, int64_t number) {
    std::vector<Word> words = wordsOf(line, number);
    const bool hasName = line.find(':') != std::string_view::npos;
    if (words.empty() ? !hasName : words.front().text.starts_with('#'))
      return;
    if (hasName)
      readName(words, number);
    std::vector<TextTask> &row = rows.emplace_back();
    for (const Word &word : words)
      readWord(word, row);
    tasks += int64_t(row.size());
  }

  static std::vector<Word> wordsOf(std::string_view line, int64_t number) {
    std::vector<Word> words;
    for (size_t i = 0; i < line.size();) {
      const size_t begin = i;
      while (i < line.size() && !isBreak(line[i]) && line[i] != ':')
        ++i;
      if (i > begin)
        words.push_back({line.substr(begin, i - begin), number, int64_t(begin) + 1});
      else
        ++i;
    }
    return words;
  }

  // "stage 0:"; rows come in the order of stages.
  void readName(std::vector<Word> &words, int64_t line) {
    std::string_view number = words.size() > 1 ? words[1].text : std::string_view();
    const std::string_view first = words.empty() ? std::string_view() : words.front().text;
    const std::string found = fmt::format("{}{}{}", first, number.empty() ? "" : " ", number);
    const bool isNamed = first == "stage" || first == "rank";
    if (!isNamed || takeNumber(number) != int64_t(rows.size()) || !number.empty())
      problems.add("line {} begins with \"{}\"; expected \"stage {}:\", as rows come in the order of stages", line,
                   shown(found), rows.size());
    words.erase(words.begin(), words.begin() + std::min<int64_t>(2, int64_t(words.size())));
  }

  // A task, or a pair: "0F4+3B0", "(0F4;3B0)OVERLAP_F_B".
  void readWord(const Word &word, std::vector<TextTask> &row) {
    static constexpr std::string_view pairEnd = ")OVERLAP_F_B";
    std::string_view both = word.text;
    const bool isPyTorch = both.starts_with('(') && both.ends_with(pairEnd);
    if (isPyTorch)
      both = both.substr(1, both.size() - 1 - pairEnd.size());
    const size_t middle = both.find(isPyTorch ? ';' : '+');
    if (middle == std::string_view::npos)
      return readTask(word, row);
    const size_t before = row.size();
    for (std::string_view part : {both.substr(0, middle), both.substr(middle + 1)})
      readTask({part, word.line, word.column + (part.data() - word.text.data())}, row);
    if (row.size() == before + 2)
      row.back().paired = true;
    else
      problems.add("{}: \"{}\" is no pair of tasks, such as 0F4+3B0", placeOf(word), shown(word.text));
  }

  void readTask(const Word &word, std::vector<TextTask> &row) {
    static constexpr TaskKind kinds[] = {TaskKind::forward, TaskKind::backward, TaskKind::input, TaskKind::weight};
    std::string_view rest = word.text;
    TextTask task{word};
    bool fits = true;
    if (!rest.empty() && isDigit(rest.front())) {
      const std::optional<int64_t> global = takeNumber(rest);
      fits = global.has_value();
      task.global = global.value_or(-1);
    }
    const std::string_view letters = rest.substr(0, rest.find_first_of("0123456789"));
    if (letters.starts_with("SEND_") || letters.starts_with("RECV_"))
      return;
    const auto *kind =
        std::ranges::find_if(kinds, [&](TaskKind one) { return letters.size() == 1 && letters[0] == letterOf(one); });
    rest.remove_prefix(letters.size());
    const std::optional<int64_t> microbatch = rest.empty() ? std::nullopt : takeNumber(rest);
    if (!fits || kind == std::end(kinds) || !microbatch || !rest.empty()) {
      problems.add("{}: \"{}\" is no task; expected F, B, I or W and a microbatch, such as F0, after a chunk where "
                   "stages have several, such as 3F0",
                   placeOf(word), shown(word.text));
      return;
    }
    task.kind = *kind;
    task.microbatch = *microbatch;
    row.push_back(task);
  }
};

// --- Numbers to a shape ---

// A complete schedule has a task for every chunk and microbatch, so that no number exceeds the number of tasks.
Status checkNumbers(const TextReader &reader) {
  Problems problems;
  for (const std::vector<TextTask> &row : reader.rows)
    for (const TextTask &task : row)
      if (task.global >= reader.tasks || task.microbatch >= reader.tasks)
        problems.add("{}: \"{}\" has a {} beyond the {} tasks of the text", placeOf(task.word), shown(task.word.text),
                     task.global >= reader.tasks ? "chunk" : "microbatch", reader.tasks);
  return problems.status();
}

Result<Shape> shapeOf(const TextReader &reader) {
  Shape shape{int64_t(reader.rows.size()), 1, 1};
  int64_t chunks = 0, tasks = 0;
  for (const std::vector<TextTask> &row : reader.rows)
    for (const TextTask &task : row) {
      chunks = std::max(chunks, task.global + 1);
      shape.microbatches = std::max(shape.microbatches, task.microbatch + 1);
    }
  chunks = std::max(chunks, shape.stages);
  if (chunks % shape.stages != 0)
    return errorf("has the chunks 0 to {} on {} stages; expected as many chunks on each stage", chunks - 1,
                  shape.stages);
  shape.virtualStages = chunks / shape.stages;
  tasks = reader.tasks;
  if (Checked all = checkedMultiply(chunks, shape.microbatches); !all || *all > tasks || *all > kMaxTasks)
    return errorf("has {} tasks; {} chunks and {} microbatches, the largest numbers in it, need a forward and a "
                  "backward for each pair, and {} pairs are possible",
                  tasks, chunks, shape.microbatches, kMaxTasks);
  return shape;
}

// The placement in which every task is on a stage that holds its chunk.
Status findPlacement(const TextReader &reader, Shape &shape) {
  auto misplaced = [&](ChunkPlacement placement) {
    shape.placement = placement;
    std::vector<std::pair<int64_t, const TextTask *>> tasks;
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      for (const TextTask &task : reader.rows[stage])
        if (task.global >= 0 ? shape.stageOf(task.global) != stage : shape.virtualStages > 1)
          tasks.push_back({stage, &task});
    return tasks;
  };
  const auto inV = misplaced(ChunkPlacement::v), inLoop = misplaced(ChunkPlacement::loop);
  const bool isV = inV.size() < inLoop.size();
  shape.placement = isV ? ChunkPlacement::v : ChunkPlacement::loop;
  Problems problems;
  for (const auto &[stage, task] : isV ? inV : inLoop)
    if (task->global < 0)
      problems.add("{}: \"{}\" has no chunk; stages have {} each, so expected a number before the letter",
                   placeOf(task->word), shown(task->word.text), shape.virtualStages);
    else
      problems.add("{}: stage {} has a task of chunk {}, which is on stage {}{}", placeOf(task->word), stage,
                   task->global, shape.stageOf(task->global),
                   shape.virtualStages > 1 ? (isV ? " in a V" : " where chunks go round") : "");
  return problems.status();
}

} // namespace

Result<ScheduleText> readScheduleText(std::string_view text) {
  TextReader reader;
  MGC_TRY(reader.read(text));
  MGC_TRY(checkNumbers(reader));
  ScheduleText result;
  MGC_ASSIGN(shape, shapeOf(reader));
  result.shape = shape;
  MGC_TRY(findPlacement(reader, result.shape));
  result.splitBackward = std::ranges::any_of(reader.rows, [](const std::vector<TextTask> &row) {
    return std::ranges::any_of(
        row, [](const TextTask &task) { return task.kind == TaskKind::input || task.kind == TaskKind::weight; });
  });
  std::vector<std::vector<const TextTask *>> written(result.shape.stages); // by stage and step
  for (int64_t stage = 0; stage < result.shape.stages; ++stage) {
    Order &order = result.orders.emplace_back();
    auto add = [&](const TextTask &task, TaskKind kind) {
      const int64_t chunk = task.global < 0 ? 0 : result.shape.chunkOf(task.global);
      order.push_back({kind, chunk, task.microbatch, -1, task.paired && kind != TaskKind::weight});
      written[stage].push_back(&task);
    };
    for (const TextTask &task : reader.rows[stage]) {
      const bool isHalved = result.splitBackward && task.kind == TaskKind::backward;
      add(task, isHalved ? TaskKind::input : task.kind);
      if (isHalved)
        add(task, TaskKind::weight);
    }
  }
  MGC_TRY(checkOrders(result.shape, result.orders, [&](int64_t stage, int64_t step) {
    return fmt::format("stage {} step {} {} ({})", stage, step,
                       tokenOf(result.shape, stage, result.orders[stage][step]), placeOf(written[stage][step]->word));
  }));
  return result;
}

// The word of the task, and of the one that is its pair.
static std::string wordOf(const Shape &shape, int64_t stage, const Order &order, size_t i, TextForm form) {
  const auto token = [&](size_t at) {
    const bool needsChunk = form == TextForm::csv && shape.virtualStages == 1; // PyTorch's always have it
    return (needsChunk ? std::to_string(stage) : "") + tokenOf(shape, stage, order[at]);
  };
  if (i + 1 == order.size() || !order[i + 1].paired)
    return token(i);
  return fmt::format(fmt::runtime(form == TextForm::csv ? "({};{})OVERLAP_F_B" : "{}+{}"), token(i), token(i + 1));
}

std::string writeScheduleText(const Shape &shape, const std::vector<Order> &orders, TextForm form) {
  std::string text;
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    if (form == TextForm::rows)
      text += fmt::format("stage {}:", stage);
    for (size_t i = 0; i < orders[stage].size(); ++i) {
      if (orders[stage][i].paired)
        continue;
      if (form == TextForm::rows || i > 0)
        text += form == TextForm::rows ? ' ' : ',';
      text += wordOf(shape, stage, orders[stage], i, form);
    }
    text += '\n';
  }
  return text;
}

} // namespace mgc::schedule
