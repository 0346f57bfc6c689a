"use strict";
// The page of firn watch. Frames come from the server that served the page, or stand in its data block. Each has what changed
// in the map since the one before. Text from a volume goes into text nodes only.
(() => {
  const STATES = ["clean", "clean after a checkpoint", "next of a log", "emptied", "closed", "head of a log",
    "being cleaned", "damaged"];
  const CLEAN = 0, WAITING = 1, NEXT = 2, EMPTIED = 3, HEAD = 5, VICTIM = 6, DAMAGED = 7;
  const AGES = [10, 60, 600, 3600, 86400];
  const HUES = [0, 50, 120, 180, 220, 290];
  const SNAPSHOT_EVERY = 60;
  const KEPT_FRAMES = 7200;
  const SNAPSHOT_BYTES_MAX = 256e6;
  const byId = (id) => document.getElementById(id);
  const say = (id, text) => { byId(id).textContent = text; };

  const frames = [];
  const snapshots = new Map();
  const view = { at: 0, follows: true, paused: false, speed: 1, built: -1, map: null, shown: -1 };
  const embedded = JSON.parse(byId("data").textContent);

  // Numbers for people.
  const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; n >= 999.5 && unit < 5; unit++) n /= 1024;
    return (unit > 0 && n < 9.95 ? n.toFixed(1) : n.toFixed(0)) + " " + units[unit];
  };
  const seconds = (s) => s < 10 ? s.toFixed(1) + " s" : s < 100 ? s.toFixed(0) + " s" : s < 5970 ? (s / 60).toFixed(0) + " min"
    : s < 172800 ? (s / 3600).toFixed(0) + " h" : s < 86400 * 999 ? (s / 86400).toFixed(0) + " d" : "years";
  const orDash = (value, digits) => value === null ? "-" : value.toFixed(digits);
  const mb = (n) => (n / 1e6).toFixed(1);

  // The map: parallel arrays, as map.rs packs changes.
  const emptyMap = (segments) => ({
    state: new Uint8Array(segments), log: new Uint8Array(segments), live: new Uint8Array(segments),
    written: new Float64Array(segments),
  });
  const copyMap = (map) => ({ state: map.state.slice(), log: map.log.slice(), live: map.live.slice(), written: map.written.slice() });
  const applyChanges = (map, frame) => {
    const segments = frame.volume.segments;
    if (frame.map.from === 0 || map === null || map.state.length !== segments) map = emptyMap(segments);
    const packed = atob(frame.map.changes);
    const now = Math.floor(frame.now_ns / 1e9);
    let at = 0;
    const varint = () => {
      let value = 0, scale = 1;
      for (;;) {
        const byte = packed.charCodeAt(at++);
        value += (byte & 127) * scale;
        if (!(byte & 128)) return value;
        scale *= 128;
      }
    };
    for (let next = 0; at < packed.length;) {
      next += varint();
      const segment = next - 1, mark = packed.charCodeAt(at++);
      map.state[segment] = mark & 15;
      map.log[segment] = mark >> 4;
      map.live[segment] = packed.charCodeAt(at++);
      map.written[segment] = now - varint();
    }
    return map;
  };
  // The map of a frame, from the last snapshot before it.
  const build = (index) => {
    if (view.built > index || view.map === null) {
      let from = index;
      while (from > 0 && !snapshots.has(frames[from].serial)) from--;
      view.map = snapshots.has(frames[from].serial) ? copyMap(snapshots.get(frames[from].serial)) : applyChanges(null, frames[from]);
      view.built = from;
    }
    while (view.built < index) {
      view.built++;
      view.map = applyChanges(view.map, frames[view.built]);
      keepSnapshot(view.built);
    }
  };
  const keepSnapshot = (index) => {
    const frame = frames[index];
    if (frame.serial % SNAPSHOT_EVERY === 0 && !snapshots.has(frame.serial)
      && (snapshots.size + 1) * view.map.state.length * 11 < SNAPSHOT_BYTES_MAX) snapshots.set(frame.serial, copyMap(view.map));
  };
  const addFrames = (more) => {
    for (const frame of more) {
      const last = frames[frames.length - 1];
      if (last && frame.map.from !== 0 && frame.serial !== last.serial + 1) continue;
      if (last && frame.serial <= last.serial && frame.map.from === 0) {
        frames.length = 0;
        snapshots.clear();
        Object.assign(view, { built: -1, map: null, shown: -1, at: 0, follows: true });
      }
      frames.push(frame);
    }
    if (frames.length > KEPT_FRAMES) forget();
    if (view.follows && !view.paused) view.at = frames.length - 1;
  };
  // Drops the oldest frames up to a snapshot, which then is where everything begins.
  const forget = () => {
    const first = frames.findIndex((frame, n) => n >= SNAPSHOT_EVERY && snapshots.has(frame.serial));
    if (first < 0) return;
    for (const frame of frames.splice(0, first)) snapshots.delete(frame.serial);
    view.at = Math.max(0, view.at - first);
    view.built = -1;
    view.map = null;
  };

  // Drawing.
  const fit = (canvas) => {
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth || 600, canvas.clientHeight || 60];
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return { context, width, height };
  };
  const RATES = [
    ["users MB/s", (f) => f.rates.user / 1e6, 1], ["cleaner MB/s", (f) => f.rates.cleaner / 1e6, 1],
    ["metadata MB/s", (f) => f.rates.metadata / 1e6, 1], ["write amplification", (f) => f.rates.write_amplification, 2],
    ["clean segments", (f) => f.marks.ready, 0],
  ];
  const rateParts = RATES.map(([name, of, digits]) => {
    const part = document.createElement("div"), title = document.createElement("p"), canvas = document.createElement("canvas");
    part.append(title, canvas);
    byId("rates").append(part);
    return { name, of, digits, title, canvas };
  });
  const history = () => frames.slice(Math.max(0, view.at - 59), view.at + 1);
  const drawRates = (frame) => {
    const span = seconds(history().reduce((sum, f) => sum + f.rates.seconds, 0));
    for (const { name, of, digits, title, canvas } of rateParts) {
      const values = history().map((f) => of(f) || 0);
      title.textContent = name + ": " + orDash(of(frame), digits) + "; last " + span;
      const { context, width, height } = fit(canvas);
      const marks = name === "clean segments" ? frame.marks : null;
      const top = Math.max(...values, marks ? marks.idle_target : 0, 1e-9);
      context.fillStyle = "#6fd08c";
      values.forEach((value, n) => {
        const tall = value / top * (height - 2);
        context.fillRect(width - (values.length - n) * width / 60, height - tall, width / 60 - 1, tall);
      });
      const lines = marks ? ["reserve", "low", "high", "idle_target"] : [];
      const lineAt = (mark) => height - marks[mark] / top * (height - 2);
      context.fillStyle = "#ffffff";
      for (const mark of lines) context.fillRect(0, lineAt(mark), width, 1);
      context.font = "9px sans-serif";
      // On a ground of their own, after all lines: on a small volume these lie so close that they would cross labels.
      for (const mark of lines) {
        const name = mark.split("_")[0], x = { reserve: 2, low: 45, high: 75, idle_target: 105 }[mark];
        const y = Math.max(8, lineAt(mark) - 1);
        context.fillStyle = "#101418";
        context.fillRect(x - 1, y - 8, context.measureText(name).width + 2, 9);
        context.fillStyle = "#ffffff";
        context.fillText(name, x, y);
      }
    }
  };
  const drawHistogram = (id, counts) => {
    const { context, width, height } = fit(byId(id));
    const top = Math.max(...counts, 1);
    context.font = "10px sans-serif";
    counts.forEach((count, n) => {
      const tall = count / top * (height - 26);
      context.fillStyle = "#6fd08c";
      context.fillRect(n * width / 10 + 1, height - 13 - tall, width / 10 - 2, tall);
      context.fillStyle = "#d8dee4";
      if (count > 0) context.fillText(String(count), n * width / 10 + 2, height - 16 - tall);
      context.fillText(n * 10 + "%", n * width / 10 + 2, height - 2);
    });
    say(id + "-text", counts.join(" "));
  };
  const layout = { columns: 1, side: 8, segments: 0 };
  const ageClass = (age) => { const n = AGES.findIndex((bound) => age < bound); return n < 0 ? AGES.length : n; };
  const colourOf = (map, segment, now) => {
    if (map.state[segment] <= NEXT) return "#1b2229";
    const hue = HUES[ageClass(Math.max(0, now - map.written[segment]))];
    return "hsl(" + hue + " 65% " + (82 - map.live[segment] / 255 * 56).toFixed(0) + "%)";
  };
  const drawMap = (frame) => {
    const map = view.map, segments = map.state.length, now = Math.floor(frame.now_ns / 1e9);
    const { context, width, height } = fit(byId("map"));
    let side = Math.max(1, Math.min(24, Math.floor(Math.sqrt(width * height / segments))));
    while (side > 1 && Math.ceil(segments / Math.floor(width / side)) * side > height) side--;
    const columns = Math.max(1, Math.floor(width / side));
    Object.assign(layout, { columns, side, segments });
    const lit = new Set(frame.lit);
    const would = new Set(frame.would.length ? frame.would[0].victims.map((victim) => victim.segment) : []);
    const gap = side > 3 ? 1 : 0;
    context.font = Math.max(7, side - 3) + "px monospace";
    for (let segment = 0; segment < segments; segment++) {
      const x = (segment % columns) * side, y = Math.floor(segment / columns) * side;
      context.fillStyle = colourOf(map, segment, now);
      context.fillRect(x, y, side - gap, side - gap);
      const state = map.state[segment];
      let sign = "";
      if (state === DAMAGED) sign = "!";
      else if (lit.has(segment) || state === VICTIM) sign = "X";
      else if (would.has(segment)) sign = "w";
      else if (state === HEAD) sign = map.log[segment].toString(16);
      else if (state === EMPTIED) sign = "o";
      else if (state === NEXT) sign = ">";
      else if (state === WAITING) sign = ",";
      else if (state !== CLEAN && byId("ages").checked) sign = String(ageClass(Math.max(0, now - map.written[segment])));
      if (sign === "X" || sign === "!") {
        context.fillStyle = "#ff1744";
        context.fillRect(x, y, side - gap, side - gap);
      }
      if (state === HEAD) {
        context.strokeStyle = "#ffffff";
        context.strokeRect(x + 0.5, y + 0.5, Math.max(1, side - gap - 1), Math.max(1, side - gap - 1));
      }
      if (sign !== "" && side >= 7) {
        context.fillStyle = state <= NEXT || sign === "X" ? "#ffffff" : "#000000";
        context.fillText(sign, x + 1, y + side - 2 - gap);
      }
    }
    say("map-title", segments + " segments, " + frame.segments_in_use + " in use, " + bytes(frame.live_bytes) + " live");
  };
  const about = (segment) => {
    const frame = frames[view.at];
    if (!frame || view.map === null || segment < 0 || segment >= layout.segments) return;
    const state = view.map.state[segment], age = Math.max(0, Math.floor(frame.now_ns / 1e9) - view.map.written[segment]);
    const used = state > NEXT ? ", log " + view.map.log[segment] + ", " + (view.map.live[segment] / 2.55).toFixed(0)
      + "% live, written " + seconds(age) + " ago" : "";
    say("about", "segment " + segment + ": " + (STATES[state] || "?") + used);
  };
  const list = (id, texts) => byId(id).replaceChildren(...texts.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  const victimText = (frame) => (victim) => victim.segment + ": " + (victim.live_bytes * 100 / frame.volume.segment_bytes).toFixed(0)
    + "% live, " + seconds(victim.age_ms / 1000) + " old" + (victim.why ? ", " + victim.why : "");
  const drawTexts = (frame) => {
    const { marks, space, stalls } = frame;
    say("name", frame.volume.name);
    say("state", frame.read_only === null ? (frame.is_frozen ? "FROZEN" : "writable") : "READ-ONLY: " + frame.read_only);
    byId("state").className = frame.read_only === null && !frame.is_frozen ? "" : "bad";
    say("policy", frame.volume.policy + ", " + frame.volume.source);
    say("space", "full " + (frame.fullness * 100).toFixed(1) + "%: " + bytes(space.total_bytes - space.free_bytes) + " of "
      + bytes(space.total_bytes) + "; " + (frame.seconds_to_full === null ? "not filling" : "full in " + seconds(frame.seconds_to_full)));
    say("marks", marks.ready + " clean segments; reserve " + marks.reserve + ", low " + marks.low + ", high " + marks.high + ", idle "
      + marks.idle_target + "; " + marks.waiting + " wait for checkpoints" + (marks.ready < marks.low ? "; BELOW LOW" : ""));
    byId("marks").className = marks.ready < marks.low ? "bad" : "";
    const past = frames.slice(Math.max(0, view.at - 300), view.at + 1).reverse();
    list("events", past.flatMap((f) => f.events.map((event) => seconds((frame.now_ns - event.at_ns) / 1e9) + " ago: "
      + (event.is_bad ? "! " : "") + event.text)).slice(0, 50));
    list("taken", past.flatMap((f) => f.victims.slice().reverse()).slice(0, 16).map(victimText(frame)));
    say("would-title", (frame.would.length ? frame.would[0].policy : "no policy") + " would take now");
    list("would", frame.would.length ? frame.would[0].victims.map(victimText(frame)) : ["start firn watch with --policy NAME"]);
    const rows = frame.requests.length === 0 ? [["not served through a mount", "", ""]] : [["request", "a second", "mean ms"],
      ...frame.latency.slice(0, 8).map((kind) => [kind.name, kind.rate.toFixed(0), kind.mean_ms.toFixed(3)]),
      ["waits for room", String(frame.rates.stalls), orDash(frame.rates.stall_ms, 1)],
      ["all waits", String(stalls.count), "longest " + (stalls.longest_ns / 1e6).toFixed(1)
        + (stalls.p99_ns ? ", p50 " + (stalls.p50_ns / 1e6).toFixed(1) + ", p99 " + (stalls.p99_ns / 1e6).toFixed(1) : "")]];
    byId("latency").replaceChildren(...rows.map((row, n) => {
      const line = document.createElement("tr");
      line.append(...row.map((text) => {
        const cell = document.createElement(n === 0 ? "th" : "td");
        cell.textContent = text;
        return cell;
      }));
      return line;
    }));
  };
  const draw = () => {
    const frame = frames[view.at];
    if (!frame) return;
    build(view.at);
    drawTexts(frame);
    drawRates(frame);
    drawMap(frame);
    drawHistogram("utilisation", frame.utilisation);
    drawHistogram("victims", frame.victim_shares);
    const scrub = byId("scrub");
    scrub.max = String(frames.length - 1);
    scrub.value = String(view.at);
    const behind = (frames[frames.length - 1].now_ns - frame.now_ns) / 1e9;
    say("time", embedded ? seconds((frame.now_ns - frames[0].now_ns) / 1e9) + " of " + seconds((frames[frames.length - 1].now_ns - frames[0].now_ns) / 1e9)
      : behind > 0 ? seconds(behind) + " ago" : "now");
    say("feed", (view.paused ? "PAUSED" : embedded ? "replay" : "live"));
    document.body.dataset.serial = String(frame.serial);
    view.shown = view.at;
  };

  // CSV and SVG.
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const csv = () => {
    const columns = ["seconds", "used_bytes", "total_bytes", "ready", "low", "high", "user_bytes_s", "cleaner_bytes_s",
      "metadata_bytes_s", "write_amplification", "cleaned", "requests_s", "request_ms", "stalls", "stall_ms"];
    const value = (n) => n === null ? "" : String(n);
    const rows = frames.map((f) => [f.now_ns / 1e9, f.space.total_bytes - f.space.free_bytes, f.space.total_bytes, f.marks.ready,
      f.marks.low, f.marks.high, f.rates.user, f.rates.cleaner, f.rates.metadata, f.rates.write_amplification, f.rates.cleaned,
      f.rates.requests, f.rates.request_ms, f.rates.stalls, f.rates.stall_ms].map(value).join(","));
    return columns.join(",") + "\n" + rows.join("\n") + "\n";
  };
  const svg = () => {
    const space = "http://www.w3.org/2000/svg";
    const make = (name, attributes, text) => {
      const element = document.createElementNS(space, name);
      for (const key in attributes) element.setAttribute(key, attributes[key]);
      if (text !== undefined) element.textContent = text;
      return element;
    };
    const frame = frames[view.at], now = Math.floor(frame.now_ns / 1e9), { columns, segments } = layout, side = 8;
    const height = Math.ceil(segments / columns) * side + 30;
    const root = make("svg", { xmlns: space, viewBox: "0 0 " + columns * side + " " + height });
    root.append(make("rect", { width: columns * side, height, fill: "#101418" }));
    root.append(make("text", { x: 4, y: 18, fill: "#ffffff", "font-size": 14 }, frame.volume.name + ": " + (frame.fullness * 100).toFixed(1)
      + "% full, " + frame.marks.ready + " clean segments"));
    for (let segment = 0; segment < segments; segment++) root.append(make("rect", { x: segment % columns * side,
      y: Math.floor(segment / columns) * side + 28, width: side - 1, height: side - 1, fill: colourOf(view.map, segment, now) }));
    return new XMLSerializer().serializeToString(root);
  };

  // People.
  byId("pause").addEventListener("click", () => {
    view.paused = !view.paused;
    say("pause", view.paused ? "Go on" : "Pause");
    draw();
  });
  byId("scrub").addEventListener("input", (event) => {
    view.at = Math.min(frames.length - 1, Number(event.target.value));
    view.follows = view.at === frames.length - 1;
    draw();
  });
  byId("speed").addEventListener("change", (event) => {
    view.speed = Number(event.target.value);
    if (view.speed < 1) view.follows = false;
  });
  byId("ages").addEventListener("change", draw);
  byId("csv").addEventListener("click", () => save("firn-watch.csv", "text/csv", csv()));
  byId("svg").addEventListener("click", () => save("firn-watch.svg", "image/svg+xml", svg()));
  byId("map").addEventListener("mousemove", (event) => {
    const box = event.target.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / layout.side);
    if (column < layout.columns) about(Math.floor((event.clientY - box.top) / layout.side) * layout.columns + column);
  });
  window.addEventListener("resize", draw);

  // Time: behind the newest frame it passes at the speed that was chosen.
  let then = performance.now(), owed_s = 0;
  const pass = (now) => {
    owed_s += (now - then) / 1000 * view.speed;
    then = now;
    const before = view.at;
    if (view.paused || view.follows && !embedded) owed_s = 0;
    while (view.at + 1 < frames.length && owed_s > 0) {
      const step_s = (frames[view.at + 1].now_ns - frames[view.at].now_ns) / 1e9;
      if (step_s > owed_s) break;
      owed_s -= step_s;
      view.at++;
    }
    if (view.at === frames.length - 1) {
      owed_s = 0;
      if (view.speed >= 1) view.follows = true;
    }
    if (view.at !== before || view.shown !== view.at) draw();
    requestAnimationFrame(pass);
  };
  // The time of a simulation may be that of months: all of it takes a minute, about.
  const fitSpeed = () => {
    const [first, last] = [frames[0], frames[frames.length - 1]];
    if (!first || first.requests.length > 0) return;
    const wanted = (last.now_ns - first.now_ns) / 60e9, speeds = [...byId("speed").options].map((option) => Number(option.value));
    view.speed = speeds.find((speed) => speed >= wanted) || speeds[speeds.length - 1];
    byId("speed").value = String(view.speed);
  };
  const poll = async () => {
    try {
      const last = frames.length ? frames[frames.length - 1].serial : 0;
      const answer = await fetch("frames?since=" + last);
      addFrames(await answer.json());
    } catch (error) {
      say("feed", "firn watch has ended");
    }
    setTimeout(poll, 500);
  };
  if (embedded) {
    addFrames(embedded);
    view.at = 0;
    view.follows = false;
    fitSpeed();
    draw();
  } else poll();
  requestAnimationFrame(pass);
})();
