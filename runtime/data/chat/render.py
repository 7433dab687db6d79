# Renders conversations with a chat template, as transformers' apply_chat_template does, and finds in each text what is
# learned. A process that mgrun and mgc-data start (RenderProcess.h); a request and its answer are a line of JSON each.
#
#   {"template": TEXT, "variables": {"bos_token": "<s>", ..}}     {"has_marks": BOOL, "names": [..], "variables": [..]}
#   {"chats": [{"messages": [..], "tools": [..], "variables": {..}, "learned": [1, 3], "is_every_answer": BOOL,
#              "is_all_learned": BOOL}, ..]}                      {"texts": [{"text": TEXT, "parts": [[8, 12], ..], "shortened": 0}, ..]}
#   {"parquet": FILE, "lines": FILE}                              {"rows": N}
#
# Parts are bytes of the text. Shortened: earlier answers of which the text has not all. What is wrong is {"error": TEXT}, in the place of an answer or of one of its texts.
import sys

sys.path = [folder for folder in sys.path if folder]  # no modules of the working folder

import datetime  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import resource  # noqa: E402
import signal  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

MANY = 8  # learned messages, of which some are alike
PROBE = "\ufdd0"  # stands for a message's content: a character that Unicode gives to nobody
MOST_BYTES = 8 << 30  # memory of a process that renders, if it may have as much: a template may never end


class Refused(Exception):
    pass


class Renderer:
    def __init__(self, source, variables):
        import jinja2.ext
        import jinja2.meta
        import jinja2.sandbox

        blocks, marks = self.blocks, self.marks = [], []  # the text so far; (begin, text) of each marked part

        class Generation(jinja2.ext.Extension):
            """{% generation %} .. {% endgeneration %}: the text between them is what the model says."""

            tags, has_marks = {"generation"}, False

            def parse(self, parser):
                self.has_marks = True
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                return jinja2.nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

            def _marked(self, caller):
                text = caller()
                marks.append((sum(map(len, blocks)), text))
                return text

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
        environment.filters["tojson"] = to_json
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        try:
            self.template = environment.from_string(source)
            tree = environment.parse(source)
        except jinja2.TemplateSyntaxError as error:
            raise Refused(f"line {error.lineno}: {error.message}")
        self.variables = variables
        self.has_marks = any(extension.has_marks for extension in environment.extensions.values()
                             if isinstance(extension, Generation))
        names = {node.attr for node in tree.find_all(jinja2.nodes.Getattr)} | {
            node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
        self.names = sorted(name for name in names if name.isidentifier())
        self.read = sorted(jinja2.meta.find_undeclared_variables(tree))

    def render(self, chat, messages, prompts=False):
        """The text, and the parts of it that the template marks."""
        self.marks.clear(), self.blocks.clear()
        given = {**self.variables, **(chat.get("variables") or {}), "messages": messages, "tools": chat.get("tools"), "documents": None,
                 "add_generation_prompt": prompts}
        for block in self.template.generate(**given):
            self.blocks.append(block)
        text = "".join(self.blocks)
        if any(text[begin:begin + len(marked)] != marked for begin, marked in self.marks):
            raise Refused("the template changes what {% generation %} marks, so that it cannot be told what is learned")
        return text, [[begin, begin + len(marked)] for begin, marked in self.marks]


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise Refused(str(message))


class Chat:
    def __init__(self, renderer, chat):
        self.renderer, self.chat, self.messages = renderer, chat, [with_reasoning(m) for m in chat["messages"]]
        self.text, self.marked = renderer.render(chat, self.messages)
        self.with_marks = [with_marks(i, message) for i, message in enumerate(self.messages)]
        self.marked_text = self.rendered([message for message, _ in self.with_marks]) or ""
        self.parts = {}  # by message

    def answer(self):
        self.verify_messages()
        learned = self.chat["learned"]
        if len(learned) >= MANY and not (self.renderer.has_marks and self.chat["is_every_answer"]):
            self.find_alike(learned)
        if not self.renderer.has_marks:
            parts = [self.part_of(i) for i in learned]
        elif self.chat["is_every_answer"]:
            parts = self.marked
        else:
            parts = [part for i in learned for part in self.marked_part_of(i)]
        return {"text": self.text, "parts": in_bytes(self.text, parts), "shortened": self.shortened_answers()}

    def shortened_answers(self):
        """The learned answers that the template shortens: of earlier ones many templates drop the thoughts. In the last answer
        they would be missing from what is learned."""
        answers = [i for i, message in enumerate(self.messages) if message.get("role") == "assistant"]
        learned = answers if self.chat["is_all_learned"] else [i for i in self.chat["learned"] if i in answers]
        text, shortened = without_space(self.text), 0
        for i in learned:
            missing = next((name for name in ("content", REASONING[0]) if not self.is_whole(self.messages[i].get(name), text)), None)
            if missing and i >= answers[-1]:
                raise Refused(f'message {i}: the template drops a part of its "{missing}" (thoughts?); expected one that keeps it '
                              "(--chat-template FILE), or the message without it")
            shortened += missing is not None
        return shortened

    @staticmethod
    def is_whole(value, text):
        """Whether the text has all of a field but for white space."""
        return not isinstance(value, str) or any(without_space(form) in text for form in (value, to_json(value)[1:-1]))

    def marked_part_of(self, i):
        begin, end = self.part_of(i)
        if self.messages[i].get("role") != "assistant":
            return [[begin, end]]
        return [[max(begin, b), min(end, e)] for b, e in self.marked if b < end and e > begin]

    def find_alike(self, learned):
        """The parts of messages that stand alike: the first and the last of them are found by rendering; those between have the same
        distances from their contents. So the time of a long conversation is not the square of its length."""
        places, between = self.places_of_contents()
        alike = {}
        for i in learned if places else []:
            around = tuple(message["role"] for message in self.messages[max(0, i - 1):i + 2])
            alike.setdefault((around, between[i], between[i + 1]), []).append(i)
        for group in alike.values():
            ends = group[0], group[-1]
            (begin, end), other = [[self.part_of(i)[side] - places[i][side] for side in (0, 1)] for i in ends]
            at = places[ends[0]][0]
            prompt = self.rendered(self.messages[:ends[0]], self.messages[ends[0]]["role"] == "assistant") or ""
            behind = prompt[at:at + 1] or None  # a content that begins so may be longer in common with the prompt
            like_prompt = {i for i in group if self.text[places[i][0]] == behind}
            if other == [begin, end] and not like_prompt.intersection(ends):
                self.parts |= {i: [places[i][0] + begin, places[i][1] + end] for i in group if i not in like_prompt}

    def places_of_contents(self):
        """Where each content stands, and the texts around them; none where a message has more, or the template changes contents."""
        if any(message.keys() - {"role", "content"} or list(marks) != [message["content"]] for message, marks in self.with_marks):
            return None, []
        between, rest = [], self.marked_text
        for message, _ in self.with_marks:
            before, mark, rest = rest.partition(message["content"])
            if not mark or PROBE in before:
                return None, []
            between.append(before)
        between.append(rest)
        places, at = [], 0
        for i, message in enumerate(self.messages):
            at, content = at + len(between[i]), message["content"]
            forms = (content, content.strip(), content.lstrip(), content.rstrip())
            form = next((form for form in forms if self.text.startswith(form + between[i + 1], at)), None)
            if form is None or not self.text.startswith(between[i], at - len(between[i])):
                return None, []
            places.append((at, at + len(form)))
            at += len(form)
        return (places, between) if at + len(rest) == len(self.text) and PROBE not in rest else (None, [])

    def part_of(self, i):
        if i not in self.parts:
            self.parts[i] = self.part_by_rendering(i)
        return self.parts[i]

    def part_by_rendering(self, i):
        """Where the message stands: what the template makes of the messages up to it is longer by it than of those before it,
        with the prompt of an answer. Where the template changes earlier messages (drops their thoughts), the content is found
        by another in its place."""
        prompt = self.rendered(self.messages[:i], self.messages[i].get("role") == "assistant")
        whole = self.text if i + 1 == len(self.messages) else self.rendered(self.messages[:i + 1])
        begin = len(prompt) if prompt is not None and self.text.startswith(prompt) else None
        end = len(whole) if whole is not None and self.text.startswith(whole) else None
        if begin is None or end is None:
            head, tail = self.around(self.messages[:i], i, self.messages[i + 1:])
            if begin is None and prompt is not None:  # an answer without the thoughts that the prompt begins
                begin = self.common(prompt, self.rendered(self.messages[:i]))
            if begin is None and self.text.startswith(head):
                begin = len(head)
            if end is None and self.text.endswith(tail):
                alone = self.around(self.messages[:i], i, [])[1]
                end = len(self.text) - len(tail) + len(alone if tail.startswith(alone) else whole_marks(tail, alone))
        if begin is None or end is None or end < begin:
            raise Refused(f"message {i}: the template writes it in another way where others follow, so that what is learned of it "
                          "cannot be told; expected a template with {% generation %} around what is learned, or "
                          "--sft-learn all or last-answer")
        return [begin, end]

    def common(self, prompt, before):
        """Where the text leaves the prompt, of which it has all that stands before the message."""
        if before is None or not self.text.startswith(before):
            return None
        return max(len(before), len(whole_marks(prompt, self.text)))

    def around(self, before, i, after):
        """The text before and behind the content of message i."""
        text = self.rendered([*before, {**self.messages[i], "content": PROBE}, *after])
        if text is None or text.count(PROBE) != 1:
            return PROBE, PROBE  # no text begins or ends so
        head, tail = text.split(PROBE)
        return head, tail

    def rendered(self, messages, prompts=False):
        """None: the template refuses them."""
        try:
            return self.renderer.render(self.chat, messages, prompts)[0]
        except Exception:
            return None

    def verify_messages(self):
        """Each message is in the text: a mark in the place of its content is, for the content itself may stand elsewhere."""
        for i, (message, marks) in enumerate(self.with_marks):
            if all(mark in self.marked_text for mark in marks):
                continue
            alone = self.rendered([*self.messages[:i], message, *self.messages[i + 1:]])
            for mark, name in marks.items():
                if alone is not None and mark not in alone and json.dumps(mark)[1:-1] not in alone:
                    raise Refused(f"message {i}: {name} is not in the text that the template makes (its role is unknown?); "
                                  "expected --chat-template FILE that writes it, or none")


def with_marks(i, message):
    """The message with marks in the places of its content and of the names of its calls, and what each mark stands for."""
    marked, marks = dict(message), {}
    content = message.get("content")
    if isinstance(content, str) and content.strip() != "":
        marked["content"] = f"{PROBE}{i}{PROBE}"
        marks[marked["content"]] = 'its "content"'
    for k, call in enumerate(message.get("tool_calls") or []):
        mark = f"{PROBE}{i}.{k}{PROBE}"
        renamed = {**call.get("function", call), "name": mark}
        marked["tool_calls"] = [*marked["tool_calls"][:k], {**call, "function": renamed} if "function" in call else renamed,
                                *marked["tool_calls"][k + 1:]]
        marks[mark] = f"call {k}"
    return marked, marks


def without_space(text):
    return "".join(text.split())


def whole_marks(tail, alone):
    """The common beginning of both texts, less a mark that only begins in it: "<|end|>\\n" of "<|end|>\\n<|user|>" and
    "<|end|>\\n<|endoftext|>"."""
    return re.sub(r"[<\[][^<>\[\]]*$", "", os.path.commonprefix((tail, alone)))


REASONING = ("reasoning_content", "thinking", "reasoning")


def with_reasoning(message):
    """Templates read the first name, gpt-oss' the second."""
    found = next((message[name] for name in REASONING if message.get(name) is not None), None)
    return message if found is None else {"thinking": found, **message, "reasoning_content": found}


def in_bytes(text, parts):
    merged = []
    for begin, end in sorted(parts):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        elif begin < end:
            merged.append([begin, end])
    if text.isascii():
        return merged
    at = count = 0
    for part in merged:
        for side in (0, 1):
            count, at = count + len(text[at:part[side]].encode()), part[side]
            part[side] = count
    return merged


def rendered(renderer, chat, line):
    try:
        if PROBE in line and PROBE in json.dumps(chat, ensure_ascii=False):
            raise Refused("has a character U+FDD0, which stands for no text; expected it left out")
        answer = Chat(renderer, chat).answer()
        answer["text"].encode()
        return answer
    except UnicodeEncodeError:
        return {"error": "the template: makes half of a character (a lone surrogate)"}
    except Refused as error:
        return {"error": str(error)}
    except Exception as error:  # the template's, whatever it is
        return {"error": f"the template: {type(error).__name__}: {error}"}


def lines_of_parquet(path, out):
    import pyarrow.parquet

    rows = 0
    with open(out, "w", encoding="utf-8") as file:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                file.write(json.dumps(row, default=str) + "\n")
                rows += 1
    return {"rows": rows}


def end_with(parent):
    """A template may be at work when the program that has started this process is killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has started the process ends it
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    renderer = None
    for line in sys.stdin.buffer:
        line = line.decode()
        request = json.loads(line)
        try:
            if "template" in request:
                limits = resource.getrlimit(resource.RLIMIT_AS)
                resource.setrlimit(resource.RLIMIT_AS, [MOST_BYTES if limit == resource.RLIM_INFINITY else min(limit, MOST_BYTES)
                                                        for limit in limits])
                renderer = Renderer(request["template"], request["variables"])
                answer = {"has_marks": renderer.has_marks, "names": renderer.names, "variables": renderer.read}
            elif "parquet" in request:
                answer = lines_of_parquet(request["parquet"], request["lines"])
            else:
                answer = {"texts": [rendered(renderer, chat, line) for chat in request["chats"]]}
        except ImportError as error:
            answer = {"missing": error.name, "error": str(error)}
        except Exception as error:
            answer = {"error": str(error) or type(error).__name__}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
