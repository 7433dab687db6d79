// Tables that can be scrolled by keys and read aloud: a caption, heads of columns, and of each row its first cell.

const kLongTable = 16; // rows; longer ones are folded

// columns: [{text, isNumber}]; rows: lists of texts, as many as columns.
function tableOf(caption, columns, rows) {
  const cell = (tag, text, index, attributes) =>
    element(tag, columns[index].isNumber ? {...attributes, class: "number"} : attributes, text);
  const head = element("tr", {}, ...columns.map((column, index) => cell("th", column.text, index, {scope: "col"})));
  const body = rows.map(row => element("tr", {}, ...row.map((text, index) =>
    index === 0 ? cell("th", text, index, {scope: "row"}) : cell("td", text, index, {}))));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

function tableSection(caption, columns, rows) {
  const table = element("div", {class: "scroll", role: "region", tabindex: 0, "aria-label": caption},
                        tableOf(caption, columns, rows));
  if (rows.length <= kLongTable)
    return table;
  table.querySelector("caption").classList.add("sr-only");
  return element("details", {}, element("summary", {}, `${caption}: ${rows.length} rows`), table);
}

const textColumn = text => ({text, isNumber: false});
const numberColumn = text => ({text, isNumber: true});
