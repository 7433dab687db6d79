// Templates in Jinja, rendered by a process of Python. See ChatTemplate.h and render.py.
#include "runtime/data/chat/ChatTemplate.h"

#include "runtime/data/chat/RenderProcess.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <set>

namespace mgc {

namespace {

using Json = OrderedJson;

// A template as the process has read it.
class Renderer {
public:
  static Result<Renderer> start(const std::string &text, const Json &variables, const std::atomic<bool> *stop) {
    MGC_ASSIGN(started, RenderProcess::start({{"template", text}, {"variables", variables}}, stop));
    if (started.answer.contains("error"))
      return Status::error(started.answer["error"].get<std::string>());
    Renderer out(std::move(started.process));
    started.answer["names"].get_to(out.names_), started.answer["variables"].get_to(out.variables_);
    return out;
  }
  bool readsField(const std::string &name) const { return names_.contains(name); }
  bool readsVariable(const std::string &name) const { return variables_.contains(name); }
  Result<Json> texts(const Json &chats) {
    MGC_ASSIGN(answer, process_.ask({{"chats", chats}}));
    return Json(std::move(answer["texts"]));
  }

private:
  explicit Renderer(RenderProcess process) : process_(std::move(process)) {}
  RenderProcess process_;
  std::set<std::string> names_, variables_;
};

constexpr std::array kReasoning = {"reasoning_content", "thinking", "reasoning"}; // names of one field

class JinjaTemplate final : public ChatTemplate {
public:
  JinjaTemplate(JinjaSource source, std::vector<Renderer> renderers)
      : source_(std::move(source)), renderers_(std::move(renderers)) {}

  Result<std::vector<Result<ChatText>>> texts(std::span<const Conversation> chats, SftLearn learn) override {
    std::vector<Result<ChatText>> out(chats.size(), Result<ChatText>(Status::ok()));
    for (Renderer &renderer : renderers_) {
      Json asked = Json::array();
      std::vector<size_t> places;
      for (size_t i = 0; i < chats.size(); ++i) {
        if (&renderer != &rendererOf(chats[i]))
          continue;
        if (Status fields = verify(renderer, chats[i]); !fields.isOk())
          out[i] = fields;
        else
          asked.push_back(requestOf(chats[i], learn)), places.push_back(i);
      }
      MGC_ASSIGN(texts, renderer.texts(asked));
      for (size_t k = 0; k < places.size(); ++k)
        out[places[k]] = textOf(texts[k]);
    }
    return out;
  }
  std::string describe() const override { return source_.name; }
  uint64_t hash() const override { return hashName(source_.text + '\0' + source_.toolText + source_.variables.dump()); }

private:
  const Renderer &rendererOf(const Conversation &chat) const {
    return chat.tools.is_null() ? renderers_.front() : renderers_.back();
  }

  Status verify(const Renderer &renderer, const Conversation &chat) const {
    MGC_TRY(verifyFields(chat, source_.name, [&](const std::string &name) {
      const bool isReasoning = std::ranges::find(kReasoning, name) != kReasoning.end();
      return isReasoning
                 ? std::ranges::any_of(kReasoning, [&](const char *other) { return renderer.readsField(other); })
                 : renderer.readsField(name);
    }));
    if (!chat.tools.is_null() && !renderer.readsVariable("tools"))
      return errorf("\"tools\" are not read by {}, expected them left out, or a template that reads them",
                    source_.name);
    for (const auto &entry : chat.variables.items())
      if (!renderer.readsVariable(entry.key()))
        return errorf("\"chat_template_kwargs\": \"{}\" is not read by {}", printable(entry.key()), source_.name);
    return Status::ok();
  }

  static Json requestOf(const Conversation &chat, SftLearn learn) {
    std::vector<size_t> learned;
    bool isEveryAnswer = true;
    for (size_t i = 0; i < chat.messages.size() && learn != SftLearn::all; ++i) {
      const bool isAnswer = chat.messages[i]["role"] == "assistant", isLearned = chat.saysLearned[i].value_or(isAnswer);
      if (isLearned)
        learned.push_back(i);
      isEveryAnswer = isEveryAnswer && isLearned == isAnswer;
    }
    if (learn == SftLearn::lastAnswer && learned.size() > 1)
      learned.erase(learned.begin(), std::prev(learned.end())), isEveryAnswer = false;
    return {{"messages", chat.messages},
            {"tools", chat.tools},
            {"variables", chat.variables},
            {"learned", learned},
            {"is_every_answer", isEveryAnswer && !learned.empty()},
            {"is_all_learned", learn == SftLearn::all}};
  }

  Result<ChatText> textOf(const Json &answer) const {
    if (answer.contains("error"))
      return errorf("{}: {}", source_.name, printable(answer["error"].get<std::string>()));
    ChatText out{answer["text"].get<std::string>(), {}, answer["shortened"].get<int64_t>()};
    for (const Json &part : answer["parts"])
      out.learned.push_back({part[0].get<uint32_t>(), part[1].get<uint32_t>()});
    return out;
  }

  JinjaSource source_;
  std::vector<Renderer> renderers_; // for conversations without tools, and with them
};

} // namespace

Result<std::unique_ptr<ChatTemplate>> makeJinjaTemplate(JinjaSource source, const std::atomic<bool> *stop) {
  std::vector<Renderer> renderers;
  for (const std::string *text : {&source.text, &source.toolText}) {
    if (text->empty())
      continue;
    MGC_ASSIGN(renderer, Renderer::start(*text, source.variables, stop).at(source.name));
    renderers.push_back(std::move(renderer));
  }
  for (const std::string &name : source.given)
    if (std::ranges::none_of(renderers, [&](const Renderer &renderer) { return renderer.readsVariable(name); }))
      return errorf("--chat-template-kwargs: \"{}\" is not read by {}", printable(name), source.name);
  return std::unique_ptr<ChatTemplate>(std::make_unique<JinjaTemplate>(std::move(source), std::move(renderers)));
}

} // namespace mgc
