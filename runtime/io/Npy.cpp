#include "runtime/io/Npy.h"

#include "runtime/base/Json.h"

#include <charconv>
#include <cstring>

namespace mgc {

namespace {

constexpr const char *kHint = "; save it with numpy.save(path, array.astype('<i4').copy(order='C'))";

// The header: a Python dictionary literal such as {'descr': '<i8', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  struct Header {
    std::string_view descr, order;
    std::optional<std::vector<int64_t>> shape;
  };

  Result<Header> parse() {
    Header header;
    if (!take('{'))
      return unexpected("{");
    while (!take('}')) {
      MGC_ASSIGN(key, quoted());
      if (!take(':'))
        return unexpected(":");
      MGC_TRY(value(key, header));
      if (!take(',') && peek() != '}')
        return unexpected(", or }");
    }
    if (header.descr.empty() || header.order.empty() || !header.shape)
      return errorf("header \"{}\": expected descr, fortran_order and shape", printable(text_));
    return header;
  }

private:
  Status value(std::string_view key, Header &header) {
    if (key == "descr") {
      MGC_ASSIGN(descr, quoted());
      header.descr = descr;
    } else if (key == "fortran_order") {
      header.order = word();
    } else if (key == "shape") {
      MGC_ASSIGN(shape, tuple());
      header.shape = std::move(shape);
    } else {
      return errorf("header has \"{}\", expected descr, fortran_order and shape", printable(key));
    }
    return Status::ok();
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    bool found = peek() == c;
    at_ += found;
    return found;
  }
  Status unexpected(std::string_view expected) {
    return errorf("header \"{}\": expected {} at its byte {}{}", printable(text_), expected, at_, kHint);
  }
  Result<std::string_view> quoted() {
    char quote = peek();
    size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos)
      return unexpected("a string");
    std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inner;
  }
  std::string_view word() {
    peek();
    size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] | 0x20) >= 'a' && (text_[at_] | 0x20) <= 'z'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Result<std::vector<int64_t>> tuple() {
    std::vector<int64_t> values;
    if (!take('('))
      return unexpected("(");
    while (!take(')')) {
      peek();
      int64_t value = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0)
        return unexpected("a size");
      values.push_back(value);
      at_ = size_t(end - text_.data());
      if (!take(',') && peek() != ')')
        return unexpected(", or )");
    }
    return values;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// The header text after magic, version and length; `dataBegin` is where the array begins.
Result<std::string_view> headerText(std::string_view file, size_t &dataBegin) {
  if (!file.starts_with("\x93NUMPY") || file.size() < 10)
    return errorf("does not begin as a NumPy file does");
  int major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3)
    return errorf("has format version {}, expected 1, 2 or 3", major);
  size_t lengthBytes = major == 1 ? 2 : 4;
  uint32_t length = 0;
  if (file.size() < 8 + lengthBytes)
    return errorf("is cut off in the header");
  std::memcpy(&length, file.data() + 8, lengthBytes);
  dataBegin = 8 + lengthBytes + length;
  if (dataBegin > file.size())
    return errorf("header length is {}, but only {} bytes follow it", length, file.size() - 8 - lengthBytes);
  return file.substr(8 + lengthBytes, length);
}

// "<i8" -> I64. The first character is the byte order; '|' where there is none.
Result<ElementType> elementType(std::string_view descr) {
  char order = descr.size() == 3 ? descr[0] : ' ';
  if (order == '<' || order == '|' || order == '=')
    for (auto [name, type] :
         {std::pair("i1", ElementType::I8), std::pair("u1", ElementType::U8), std::pair("i2", ElementType::I16),
          std::pair("u2", ElementType::U16), std::pair("i4", ElementType::I32), std::pair("u4", ElementType::U32),
          std::pair("i8", ElementType::I64), std::pair("u8", ElementType::U64)})
      if (descr.substr(1) == name)
        return type;
  return errorf("has elements of type '{}', expected little-endian integers{}", printable(descr), kHint);
}

Result<TensorView> parse(const MappedFile &file) {
  size_t begin = 0;
  MGC_ASSIGN(text, headerText(file.text(), begin));
  MGC_ASSIGN(header, HeaderParser(text).parse());
  TensorView tensor;
  MGC_ASSIGN(type, elementType(header.descr));
  tensor.type = type;
  tensor.shape = *header.shape;
  if (header.order != "False")
    return errorf("fortran_order is {}, expected False{}", printable(header.order), kHint);
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    return errorf("has shape {}, expected one or two dimensions", shapeToString(tensor.shape));
  tensor.data = file.bytes().subspan(begin);
  std::optional<int64_t> elements = checkedProduct(tensor.shape);
  int64_t bytes;
  if (!elements || __builtin_mul_overflow(*elements, sizeInBytes(type), &bytes) || bytes != int64_t(tensor.data.size()))
    return errorf("shape {} of '{}' does not take the {} bytes that follow the header", shapeToString(tensor.shape),
                  header.descr, tensor.data.size());
  return tensor;
}

} // namespace

Result<Npy> Npy::open(const std::string &path) {
  MGC_ASSIGN(mapped, MappedFile::open(path));
  Npy npy(std::move(mapped));
  MGC_SET(npy.tensor_, parse(npy.file_).at(path));
  return npy;
}

} // namespace mgc
