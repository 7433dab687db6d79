// See IndexedWriter.h.
#include "runtime/data/indexed/IndexedWriter.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unistd.h>

namespace mgc {

Status appendElements(ElementType type, std::span<const int32_t> tokens, std::vector<std::byte> &out) {
  const size_t begin = out.size();
  if (type == ElementType::I32) {
    const auto bytes = std::as_bytes(tokens);
    out.insert(out.end(), bytes.begin(), bytes.end());
    return Status::ok();
  }
  if (type != ElementType::U16)
    return errorf("token ids are not written as {}, expected {} or {}", toString(type), toString(ElementType::U16),
                  toString(ElementType::I32));
  out.resize(begin + tokens.size() * sizeof(uint16_t));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto element = static_cast<uint16_t>(tokens[i]);
    if (element != tokens[i])
      return errorf("token {} does not fit the type {}", tokens[i], toString(type));
    std::memcpy(out.data() + begin + i * sizeof element, &element, sizeof element);
  }
  return Status::ok();
}

Result<IndexedWriter> IndexedWriter::create(const std::string &prefix, ElementType type, const WrittenSizes &resume) {
  if (!indexCodeOf(type))
    return errorf("{}.idx: an index cannot name the type {}", prefix, toString(type));
  // The lengths first: a commit of another process has them locked to its end.
  MGC_ASSIGN(lengths, PartFile::open(prefix + ".lengths", resume.sequences * int64_t(sizeof(int32_t))));
  MGC_ASSIGN(documents, PartFile::open(prefix + ".documents", resume.documents * int64_t(sizeof(int64_t))));
  MGC_ASSIGN(bin, PartFile::open(prefix + ".bin", resume.tokens * sizeInBytes(type)));
  return IndexedWriter(prefix, type, resume, std::move(bin), std::move(lengths), std::move(documents));
}

Result<IndexedWriter> IndexedWriter::createUnnamed(const std::string &prefix, const std::string &folder,
                                                   ElementType type) {
  MGC_ASSIGN(lengths, PartFile::openUnnamed(folder));
  MGC_ASSIGN(documents, PartFile::openUnnamed(folder));
  MGC_ASSIGN(bin, PartFile::openUnnamed(folder));
  return IndexedWriter(prefix, type, {}, std::move(bin), std::move(lengths), std::move(documents));
}

Status IndexedWriter::addSequence(std::span<const int32_t> tokens) {
  scratch_.clear();
  MGC_TRY(appendElements(type_, tokens, scratch_).at(prefix_ + ".bin"));
  return addRaw(scratch_);
}

Status IndexedWriter::addRaw(std::span<const std::byte> elements) {
  const int64_t count = std::ssize(elements) / sizeInBytes(type_);
  if (count > std::numeric_limits<int32_t>::max())
    return errorf("{}.idx: sequence {} has {} tokens, expected at most {}", prefix_, sizes_.sequences, count,
                  std::numeric_limits<int32_t>::max());
  const auto length = static_cast<int32_t>(count);
  ++sizes_.sequences, sizes_.tokens += count;
  MGC_TRY(lengths_.write(std::as_bytes(std::span(&length, 1))));
  return bin_->write(elements);
}

Status IndexedWriter::endDocument() {
  ++sizes_.documents;
  return documents_.write(std::as_bytes(std::span(&sizes_.sequences, 1)));
}

Status IndexedWriter::append(const IndexedTokens &other) {
  if (other.type() != type_)
    return errorf("{}: has tokens of type {}, but {} is of type {}; expected files of one type", other.indexPath(),
                  toString(other.type()), prefix_ + ".bin", toString(type_));
  if (sizes_.sequences > 0 && other.sequences() > 0 && other.hasModes() != !modes_.empty())
    return errorf("{}: {} modes of sequences, but the files before {}; expected all with modes, or none",
                  other.indexPath(), other.hasModes() ? "has" : "has no", modes_.empty() ? "have none" : "have some");
  const UnalignedArray<int64_t> &ends = other.documentIndices();
  const bool isEachADocument = ends.size() == 0;
  for (int64_t i = 0, document = 1; i <= other.sequences(); ++i) {
    for (; document < ends.size() && ends[document] == i; ++document)
      MGC_TRY(endDocument());
    if (isEachADocument && i > 0)
      MGC_TRY(endDocument());
    if (i == other.sequences())
      break;
    scratch_.resize(static_cast<size_t>(other.lengths()[i] * sizeInBytes(type_)));
    MGC_TRY(other.readRaw(i, 0, scratch_));
    MGC_TRY(addRaw(scratch_));
    if (other.hasModes())
      modes_.push_back(other.modes()[i]);
  }
  return Status::ok();
}

Result<WrittenSizes> IndexedWriter::sync() {
  for (PartFile *file : {bin_ ? &*bin_ : nullptr, &lengths_, &documents_})
    if (file)
      MGC_TRY(file->sync());
  return sizes_;
}

Status IndexedWriter::writeIndex(PartFile &file) {
  const std::array<uint64_t, 1> version = {kIndexVersion};
  const std::array<uint64_t, 2> counts = {static_cast<uint64_t>(sizes_.sequences),
                                          static_cast<uint64_t>(sizes_.documents + 1)};
  const std::array code = {static_cast<std::byte>(*indexCodeOf(type_))};
  MGC_TRY(file.write(std::as_bytes(std::span(kIndexMagic))));
  MGC_TRY(file.write(std::as_bytes(std::span(version))));
  MGC_TRY(file.write(std::span<const std::byte>(code)));
  MGC_TRY(file.write(std::as_bytes(std::span(counts))));
  MGC_ASSIGN(lengths, MappedFile::open(lengths_.readPath()));
  MGC_TRY(file.write(lengths.bytes()));
  const UnalignedArray<int32_t> each(lengths.bytes().data(), sizes_.sequences);
  int64_t offset = 0, first = 0;
  for (int64_t i = 0; i < each.size(); ++i) {
    MGC_TRY(file.write(std::as_bytes(std::span(&offset, 1))));
    offset += each[i] * sizeInBytes(type_);
  }
  MGC_TRY(file.write(std::as_bytes(std::span(&first, 1))));
  MGC_ASSIGN(documents, MappedFile::open(documents_.readPath()));
  MGC_TRY(file.write(documents.bytes()));
  return file.write(std::as_bytes(std::span(modes_)));
}

// The files that commit() replaces are no directories or devices.
static Status verifyReplaceable(const std::string &path) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(path, ignored);
  return !exists(status) || is_regular_file(status) || is_symlink(status)
             ? Status::ok()
             : errorf("{}: is no regular file, expected one, or none, in its place", path);
}

static Status removeIndexOf(const std::string &prefix) {
  const std::string path = prefix + ".idx";
  if (::unlink(path.c_str()) != 0)
    return errno == ENOENT ? Status::ok() : errorf("{}: cannot be removed: {}", path, std::strerror(errno));
  return syncDirectoryOf(path);
}

Status IndexedWriter::commit() {
  for (const char *end : {".bin", ".idx"})
    MGC_TRY(verifyReplaceable(prefix_ + end));
  MGC_ASSIGN(written, sync());
  (void)written;
  MGC_ASSIGN(index, PartFile::open(prefix_ + ".idx", 0));
  MGC_TRY(writeIndex(index));
  MGC_TRY(index.sync());
  if (bin_) {
    MGC_TRY(removeIndexOf(prefix_));
    MGC_TRY(bin_->place());
  }
  MGC_TRY(index.place());
  documents_.remove();
  lengths_.remove();
  return Status::ok();
}

// Checks the sizes of the files: other files may have replaced them.
static Status verifySizes(const std::string &path, const WrittenSizes &found, const WrittenSizes &sizes) {
  if (found == sizes)
    return Status::ok();
  return errorf("{}: has {} documents, {} sequences and {} tokens, expected the {}, {} and {} that an earlier run has "
                "written; --restart begins anew",
                path, found.documents, found.sequences, found.tokens, sizes.documents, sizes.sequences, sizes.tokens);
}

Status IndexedWriter::finishCommit(const std::string &prefix, ElementType type, const WrittenSizes &sizes) {
  std::error_code ignored;
  if (std::filesystem::exists(prefix + ".bin.part", ignored)) {
    MGC_ASSIGN(writer, create(prefix, type, sizes));
    return writer.commit();
  }
  if (std::filesystem::exists(prefix + ".idx", ignored)) {
    MGC_ASSIGN(files, IndexedTokens::open(prefix));
    MGC_TRY(verifySizes(files.indexPath(), {files.sequences(), files.documents(), files.tokens()}, sizes));
    for (const char *part : {".lengths.part", ".documents.part"})
      ::unlink((prefix + part).c_str());
    return Status::ok();
  }
  MGC_ASSIGN(bin, FileReader::open(prefix + ".bin"));
  MGC_TRY(verifySizes(bin.path(), {sizes.sequences, sizes.documents, bin.size() / sizeInBytes(type)}, sizes));
  MGC_ASSIGN(lengths, PartFile::open(prefix + ".lengths", sizes.sequences * int64_t(sizeof(int32_t))));
  MGC_ASSIGN(documents, PartFile::open(prefix + ".documents", sizes.documents * int64_t(sizeof(int64_t))));
  return IndexedWriter(prefix, type, sizes, std::nullopt, std::move(lengths), std::move(documents)).commit();
}

Result<IndexedTokens> IndexedWriter::finishUnnamed(const std::string &folder) {
  for (PartFile *file : {&*bin_, &lengths_, &documents_})
    MGC_TRY(file->flush());
  MGC_ASSIGN(index, PartFile::openUnnamed(folder));
  MGC_TRY(writeIndex(index));
  MGC_TRY(index.flush());
  return IndexedTokens::open(prefix_, index.readPath(), bin_->readPath());
}

void IndexedWriter::discard() {
  for (PartFile *file : {bin_ ? &*bin_ : nullptr, &lengths_, &documents_})
    if (file)
      file->remove();
}

} // namespace mgc
