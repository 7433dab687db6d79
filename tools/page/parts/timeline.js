// A picture of boxes in rows over time, on a canvas: zoomed and moved by pointer and keys. Only what is in view is drawn, and
// of boxes narrower than a pixel one for each pixel: 64 stages with 256 microbatches move as smoothly as 8 ranks.

// Pixels. A step whose boxes are on average narrower than leastBox opens zoomed, so that they have openBox.
const kTimeline = {gutter: 96, axis: 24, heading: 20, mostHeight: 720, leastRow: 10, mostRow: 26, leastBox: 16, openBox: 32};

// groups: [{title, rows: [{label, boxes: [{begin, end, text, colour, isThin, ..}]}]}], boxes of a row by their begin, in ns.
// range: the element that says which time is in view.
// describe(box, row): the element that a pointer on it shows, and what is read aloud: {tip, text}.
class Timeline {
  constructor(canvas, tip, announce, range, groups, describe) {
    Object.assign(this, {canvas, tip, announce, range, describe, top: 0, selected: null, isOpened: false});
    this.lines = groups.flatMap(group => [{heading: group.title}, ...group.rows]);
    this.rows = groups.flatMap(group => group.rows);
    for (const row of this.rows)
      row.longest = row.boxes.reduce((most, box) => Math.max(most, box.end - box.begin), 0);
    const lengthOf = rows => Math.max(1, ...rows.map(row => row.boxes.reduce((last, box) => Math.max(last, box.end), 0)));
    this.length = lengthOf(this.rows);
    this.firstLength = lengthOf(groups[0].rows);
    this.placeLines(groups.length);
    this.longest = groups.find(group => lengthOf(group.rows) === this.length) ?? groups[0];
    this.view = {begin: 0, end: this.length};
    this.listen();
    drawOn(canvas.parentElement, width => {
      this.width = width - 2; // its border
      if (!this.isOpened)
        this.view.end = this.openingEnd();
      this.isOpened = true;
      this.draw();
    });
  }

  placeLines(groups) {
    const room = kTimeline.mostHeight - kTimeline.axis - groups * kTimeline.heading;
    this.rowHeight = Math.min(kTimeline.mostRow, Math.max(kTimeline.leastRow, Math.floor(room / this.rows.length)));
    let y = 0;
    for (const line of this.lines) {
      line.y = y;
      y += line.heading === undefined ? this.rowHeight : kTimeline.heading;
    }
    this.inner = y;
    this.height = Math.min(y + kTimeline.axis, kTimeline.mostHeight);
  }

  // The end of the view that opens, from the step's begin on: the whole step, or as much of it as can be told apart in the row with
  // most boxes. Of predicted and measured step, those of the longer one count.
  openingEnd() {
    const most = Math.max(1, ...this.longest.rows.map(row => row.boxes.filter(box => !box.isThin).length));
    const room = this.width - kTimeline.gutter;
    return room / most >= kTimeline.leastBox ? this.length : this.length * Math.min(1, room / (most * kTimeline.openBox));
  }

  // --- Where things are -------------------------------------------------------------------------------------------

  get scale() { return (this.width - kTimeline.gutter) / (this.view.end - this.view.begin); } // pixels of a ns
  toX(time) { return kTimeline.gutter + (time - this.view.begin) * this.scale; }
  toTime(x) { return this.view.begin + (x - kTimeline.gutter) / this.scale; }
  toY(row) { return kTimeline.axis + row.y - this.top; }

  // The boxes of a row that end behind `begin`, from the first; a few before it may end earlier.
  firstFrom(row, begin) { return firstIndex(row.boxes, box => box.begin + row.longest < begin); }

  boxAt(x, y) {
    const row = this.rows.find(one => y >= this.toY(one) && y < this.toY(one) + this.rowHeight);
    if (!row || x < kTimeline.gutter || y < kTimeline.axis)
      return null;
    const time = this.toTime(x), found = [];
    for (let i = this.firstFrom(row, time); i < row.boxes.length && row.boxes[i].begin <= time; ++i)
      if (row.boxes[i].end >= time)
        found.push(i);
    const isLow = y - this.toY(row) > this.rowHeight * 0.7; // where thin boxes are
    const index = found.find(i => row.boxes[i].isThin === isLow) ?? found[0];
    return index === undefined ? null : {row, index};
  }

  // --- Moving -----------------------------------------------------------------------------------------------------

  show(begin, end) {
    const span = Math.min(this.length, Math.max(this.length * 1e-7, 100, end - begin));
    const from = Math.min(this.length - span, Math.max(0, begin));
    this.view = {begin: from, end: from + span};
    this.requestDraw();
  }

  zoom(factor, x = (this.width + kTimeline.gutter) / 2) {
    const at = this.toTime(Math.max(kTimeline.gutter, x)), {begin, end} = this.view;
    this.show(at - (at - begin) / factor, at + (end - at) / factor);
  }

  move(dx, dy) {
    this.top = Math.min(Math.max(0, this.inner + kTimeline.axis - this.height), Math.max(0, this.top - dy));
    this.show(this.view.begin - dx / this.scale, this.view.end - dx / this.scale);
  }

  select(row, index) {
    this.selected = {row, index};
    const box = row.boxes[index], span = this.view.end - this.view.begin;
    if (box.begin < this.view.begin || box.end > this.view.end)
      this.show((box.begin + box.end - span) / 2, (box.begin + box.end + span) / 2);
    this.move(0, Math.max(0, kTimeline.axis - this.toY(row)) - Math.max(0, this.toY(row) + this.rowHeight - this.height));
    const {text} = this.showTip(this.selected, this.toX((box.begin + box.end) / 2), this.toY(row) + this.rowHeight);
    this.announce.textContent = text;
  }

  // To the box of a neighbouring row that begins last before the middle of this one.
  selectRow(step) {
    const {row, index} = this.selected, {begin, end} = row.boxes[index];
    const other = this.rows[this.rows.indexOf(row) + step];
    if (other?.boxes.length)
      this.select(other, Math.max(0, firstIndex(other.boxes, box => box.begin <= (begin + end) / 2) - 1));
  }

  showTip(place, x, y) {
    const described = this.describe(place.row.boxes[place.index], place.row);
    this.tip.replaceChildren(described.tip);
    this.tip.hidden = false;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, this.width - this.tip.offsetWidth))}px`;
    const fits = this.canvas.getBoundingClientRect().top + y + 14 + this.tip.offsetHeight < innerHeight;
    this.tip.style.top = `${fits ? y + 14 : Math.max(0, y - 14 - this.tip.offsetHeight)}px`;
    return described;
  }

  hideTip() { this.tip.hidden = true; }

  // --- Events -----------------------------------------------------------------------------------------------------

  listen() {
    const {canvas} = this;
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = {x: event.offsetX, y: event.offsetY};
    });
    canvas.addEventListener("pointerup", () => this.drag = null);
    canvas.addEventListener("pointermove", event => this.point(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => this.hideTip());
    canvas.addEventListener("blur", () => this.hideTip());
    canvas.addEventListener("dblclick", event => this.zoom(2, event.offsetX));
    canvas.addEventListener("wheel", event => this.turn(event), {passive: false});
    canvas.addEventListener("keydown", event => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.press(event.key, event.shiftKey))
        event.preventDefault();
    });
  }

  point(x, y) {
    if (this.drag) {
      this.move(x - this.drag.x, y - this.drag.y);
      this.drag = {x, y};
      return this.hideTip();
    }
    const place = this.boxAt(x, y);
    if (place)
      this.showTip(place, x, y);
    else
      this.hideTip();
  }

  // The wheel by itself scrolls the page.
  turn(event) {
    if (event.ctrlKey || event.metaKey)
      this.zoom(Math.exp(-event.deltaY / 300), event.offsetX);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.move(-(event.deltaX || event.deltaY), 0);
    else
      return;
    this.hideTip();
    event.preventDefault();
  }

  // Whether the key means something here.
  press(key, isShifted) {
    const step = this.width / 8;
    const moves = {ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]};
    const zooms = {"+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5),
                   "0": () => this.show(0, this.length), p: () => this.show(0, this.firstLength)};
    if (zooms[key])
      zooms[key]();
    else if (key === "Escape")
      this.hideTip();
    else if (moves[key] && isShifted)
      this.move(...moves[key]);
    else if (moves[key])
      this.selectNext(key);
    else
      return false;
    return true;
  }

  selectNext(key) {
    const {row, index} = this.selected ?? {};
    if (!row)
      this.select(this.rows.find(one => one.boxes.length), 0);
    else if (key === "ArrowUp" || key === "ArrowDown")
      this.selectRow(key === "ArrowUp" ? -1 : 1);
    else
      this.select(row, Math.min(row.boxes.length - 1, Math.max(0, index + (key === "ArrowLeft" ? -1 : 1))));
  }

  // --- Drawing ----------------------------------------------------------------------------------------------------

  requestDraw() {
    if (!this.isAsked)
      requestAnimationFrame(() => this.draw());
    this.isAsked = true;
  }

  draw() {
    this.isAsked = false;
    const context = prepareCanvas(this.canvas, this.width, this.height);
    if (this.rowHeight < 12)
      context.font = context.font.replace("11px", "9px");
    this.colours = new Map();
    let drawn = 0;
    this.drawGrid(context);
    context.save();
    context.beginPath();
    context.rect(0, kTimeline.axis, this.width, this.height - kTimeline.axis);
    context.clip();
    for (const line of this.lines) {
      const y = this.toY(line);
      if (y > this.height || y + kTimeline.mostRow < kTimeline.axis)
        continue;
      if (line.heading !== undefined)
        this.drawText(context, line.heading, 6, y + kTimeline.heading / 2, "ink");
      else
        drawn += this.drawRow(context, line, y);
    }
    context.restore();
    const {begin, end} = this.view;
    this.range.textContent = end - begin >= this.length ? `all ${timeText(this.length)}` :
      `${timeText(begin)} to ${timeText(end)} of ${timeText(this.length)}`;
    this.canvas.dataset.boxes = this.rows.reduce((sum, row) => sum + row.boxes.length, 0);
    this.canvas.dataset.drawn = drawn;
  }

  colourOf(name) {
    if (!this.colours.has(name))
      this.colours.set(name, colour(name));
    return this.colours.get(name);
  }

  drawText(context, text, x, y, name) {
    context.fillStyle = this.colourOf(name);
    context.fillText(text, x, y);
  }

  drawGrid(context) {
    const unit = this.view.end >= 1e9 ? [1e9, "s"] : this.view.end >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
    for (const tick of roundTicks(this.view.begin / unit[0], this.view.end / unit[0], Math.max(2, this.width / 110))) {
      const x = Math.round(this.toX(tick * unit[0]));
      context.fillStyle = this.colourOf("grid");
      context.fillRect(x, kTimeline.axis - 6, 1, this.height);
      const text = `${Number(tick.toPrecision(7))} ${unit[1]}`;
      this.drawText(context, text, Math.min(x + 3, this.width - context.measureText(text).width - 2), 9, "soft");
    }
  }

  // Returns how many boxes were drawn.
  drawRow(context, row, y) {
    this.drawText(context, row.label, 6, y + this.rowHeight / 2, "soft");
    const {begin, end} = this.view;
    let drawn = 0, covered = kTimeline.gutter - 1;
    for (let i = this.firstFrom(row, begin); i < row.boxes.length && row.boxes[i].begin < end; ++i) {
      const box = row.boxes[i];
      const x = Math.max(kTimeline.gutter, this.toX(box.begin)), last = Math.min(this.width, this.toX(box.end));
      if (last <= kTimeline.gutter || (last <= covered && !box.isThin))
        continue;
      this.drawBox(context, box, x, last, y, this.selected?.row === row && this.selected.index === i);
      covered = box.isThin ? covered : Math.max(covered, Math.ceil(last));
      ++drawn;
    }
    return drawn;
  }

  drawBox(context, box, x, last, y, isSelected) {
    const width = Math.max(1, last - x - (last - x > 3 ? 1 : 0)), height = this.rowHeight - (this.rowHeight > 14 ? 4 : 2);
    const from = y + (box.isThin ? 0.75 * height : 0) + 1, tall = box.isThin ? 0.3 * height : height;
    context.fillStyle = this.colourOf(box.colour);
    context.globalAlpha = box.isPale ? 0.7 : 1;
    context.fillRect(x, from, width, tall);
    context.globalAlpha = 1;
    if (!box.isThin && this.rowHeight > 11 && width > 8 && context.measureText(box.text).width + 4 < width) {
      context.fillStyle = "#ffffff";
      context.fillText(box.text, x + 3, from + tall / 2 + 1);
    }
    if (isSelected) {
      context.strokeStyle = this.colourOf("ink");
      context.lineWidth = 2;
      context.strokeRect(x, from, width, tall);
    }
  }
}
