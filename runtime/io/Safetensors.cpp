#include "runtime/io/Safetensors.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cstring>

namespace mgc {

namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000; // as the reference implementation

// The header as text. The length in front of it may be anything.
Result<std::string_view> headerText(const MappedFile &file) {
  std::string_view text = file.text();
  if (text.size() < 8)
    return errorf("has {} bytes, expected at least the 8 bytes of the header length", text.size());
  uint64_t length;
  std::memcpy(&length, text.data(), sizeof(length));
  if (length > kMaxHeaderBytes)
    return errorf("header length is {}, expected at most {}: is this a safetensors file?", length, kMaxHeaderBytes);
  if (length > text.size() - 8)
    return errorf("header length is {}, but only {} bytes follow it: the file is cut off", length, text.size() - 8);
  return text.substr(8, length);
}

Result<std::vector<int64_t>> sizes(const json &entry, const char *field) {
  auto found = entry.find(field);
  if (found == entry.end() || !found->is_array())
    return errorf("\"{}\" is {}, expected a list of integers", field,
                  found == entry.end() ? "missing" : found->type_name());
  std::vector<int64_t> values;
  for (const json &element : *found) {
    std::optional<int64_t> size = jsonSize(element);
    if (!size)
      return errorf("\"{}\" has {}, expected integers from 0 to 2^63 - 1", field, printable(element.dump()));
    values.push_back(*size);
  }
  return values;
}

Result<ElementType> elementType(const json &entry) {
  auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string())
    return errorf("\"dtype\" is {}, expected a string", found == entry.end() ? "missing" : found->type_name());
  const std::string &name = found->get_ref<const std::string &>();
  std::optional<ElementType> type = elementTypeFromString(name);
  if (!type)
    return errorf("unknown dtype \"{}\", expected one of BOOL U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64 "
                  "F8_E4M3 F8_E5M2",
                  printable(name));
  return *type;
}

Result<TensorView> parseTensor(const json &entry, std::span<const std::byte> data) {
  if (!entry.is_object())
    return errorf("is {}, expected an object with dtype, shape and data_offsets", entry.type_name());
  TensorView tensor;
  MGC_ASSIGN(type, elementType(entry));
  tensor.type = type;
  MGC_ASSIGN(shape, sizes(entry, "shape"));
  tensor.shape = std::move(shape);
  MGC_ASSIGN(offsets, sizes(entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    return errorf("\"data_offsets\" is {}, expected [begin, end]", shapeToString(offsets));
  if (offsets[1] > int64_t(data.size()))
    return errorf("data ends at byte {}, but the file has only {} bytes of data: is it cut off?", offsets[1],
                  data.size());
  std::optional<int64_t> elements = checkedProduct(tensor.shape);
  int64_t bytes;
  if (!elements || __builtin_mul_overflow(*elements, sizeInBytes(tensor.type), &bytes))
    return errorf("shape {} is too large", shapeToString(tensor.shape));
  if (offsets[1] - offsets[0] != bytes)
    return errorf("{} {} takes {} bytes, but \"data_offsets\" holds {}", toString(tensor.type),
                  shapeToString(tensor.shape), bytes, offsets[1] - offsets[0]);
  tensor.data = data.subspan(size_t(offsets[0]), size_t(bytes));
  return tensor;
}

// The tensors, in order of their data, follow each other exactly and end with the file.
Status checkCover(const std::map<std::string, TensorView> &tensors, std::span<const std::byte> data) {
  using Named = std::pair<const std::string, TensorView>;
  std::vector<const Named *> order;
  for (const Named &named : tensors)
    order.push_back(&named);
  std::ranges::sort(order, {},
                    [](const Named *named) { return std::pair(named->second.data.data(), named->second.data.size()); });
  size_t end = 0;
  std::string before = "the header";
  for (const Named *named : order) {
    size_t begin = size_t(named->second.data.data() - data.data());
    if (begin != end)
      return errorf("data of tensor \"{}\" begins at byte {}, but that of {} ends at {}: {} is not allowed",
                    printable(named->first), begin, before, end, begin < end ? "overlap" : "a gap");
    end = begin + named->second.data.size();
    before = fmt::format("\"{}\"", printable(named->first));
  }
  if (end != data.size())
    return errorf("{} bytes follow the last tensor, {}", data.size() - end, before);
  return Status::ok();
}

Status parseMetadata(const json &value, std::map<std::string, std::string> &out) {
  if (!value.is_object())
    return errorf("\"__metadata__\" is {}, expected an object of strings", value.type_name());
  for (const auto &[name, text] : value.items()) {
    if (!text.is_string())
      return errorf("\"__metadata__\" has {} for \"{}\", expected a string", text.type_name(), printable(name));
    out[name] = text.get<std::string>();
  }
  return Status::ok();
}

Status parseHeader(const json &header, std::span<const std::byte> data, std::map<std::string, TensorView> &tensors,
                   std::map<std::string, std::string> &metadata) {
  if (!header.is_object())
    return errorf("the header is {}, expected an object", header.type_name());
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      MGC_TRY(parseMetadata(entry, metadata));
      continue;
    }
    Result<TensorView> tensor = parseTensor(entry, data);
    if (!tensor.isOk())
      return errorf("tensor \"{}\": {}", printable(name), tensor.status().message());
    tensors[name] = tensor.take();
  }
  return checkCover(tensors, data);
}

// Size of the data and the header text, for tensors one after another.
Result<std::string> makeHeader(std::span<const TensorSpec> tensors, const std::map<std::string, std::string> &metadata,
                               int64_t &dataBytes) {
  json header = json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  dataBytes = 0;
  for (const TensorSpec &tensor : tensors) {
    std::optional<int64_t> elements = checkedProduct(tensor.shape);
    int64_t bytes, begin = dataBytes;
    if (!elements || __builtin_mul_overflow(*elements, sizeInBytes(tensor.type), &bytes) ||
        __builtin_add_overflow(dataBytes, bytes, &dataBytes))
      return errorf("tensor \"{}\": shape {} is too large", tensor.name, shapeToString(tensor.shape));
    if (header.contains(tensor.name) || tensor.name == "__metadata__")
      return errorf("tensor \"{}\" is given twice", tensor.name);
    header[tensor.name] = {
        {"dtype", toString(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, dataBytes}}};
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' '); // so that the data is aligned
  return text;
}

} // namespace

Result<Safetensors> Safetensors::open(const std::string &path) {
  MGC_ASSIGN(mapped, MappedFile::open(path));
  Safetensors file(std::move(mapped));
  MGC_ASSIGN(text, headerText(file.file_).at(path));
  Result<json> header = parseJson(text);
  if (!header.isOk())
    return errorf("{}: header: {}", path, header.status().message());
  MGC_TRY(parseHeader(*header, file.file_.bytes().subspan(8 + text.size()), file.tensors_, file.metadata_).at(path));
  return file;
}

const TensorView *Safetensors::find(const std::string &name) const {
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path, std::span<const TensorSpec> tensors,
                                                    const std::map<std::string, std::string> &metadata,
                                                    PageCache cache) {
  int64_t dataBytes = 0;
  MGC_ASSIGN(header, makeHeader(tensors, metadata, dataBytes).at(path));
  MGC_ASSIGN(file, AtomicFile::create(path, cache));
  SafetensorsWriter writer(std::move(file));
  writer.expected_ = dataBytes;
  uint64_t length = header.size();
  MGC_TRY(writer.append(std::as_bytes(std::span(&length, 1))));
  MGC_TRY(writer.append(std::as_bytes(std::span(header))));
  return writer;
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  bytes_ += int64_t(bytes.size());
  return file_.write(bytes);
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (int64_t(bytes.size()) > expected_ - written_)
    return errorf("{}: more data is written than the {} bytes its tensors have", file_.path(), expected_);
  written_ += int64_t(bytes.size());
  return append(bytes);
}

Status SafetensorsWriter::finish() {
  if (written_ != expected_)
    return errorf("{}: {} of {} bytes of tensor data were written", file_.path(), written_, expected_);
  return file_.finish();
}

Status SafetensorsWriter::place() {
  MGC_TRY(finish());
  return file_.place();
}

Status SafetensorsWriter::commit() {
  MGC_TRY(finish());
  return file_.commit();
}

} // namespace mgc
