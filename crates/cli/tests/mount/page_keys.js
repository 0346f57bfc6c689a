// Does to the page of `firn watch` what a person does, and leaves what it saw in an element of its own. Added to a replay by
// the test beside it.
(async () => {
  const byId = (id) => document.getElementById(id);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const saw = { saved: {} };
  const serial = () => Number(document.body.dataset.serial);
  const send = (id, event) => byId(id).dispatchEvent(new Event(event));
  const seek = (to) => { byId("scrub").value = String(to); send("scrub", "input"); };
  const speed = (to) => { byId("speed").value = to; send("speed", "change"); };
  // What would be downloaded. Its text is noted when it is made: to read a blob takes real time, and the browser's virtual time may
  // be over before.
  let text = null;
  const Made = Blob;
  window.Blob = function (parts, options) { text = parts.join(""); return new Made(parts, options); };
  URL.createObjectURL = () => "blob:";
  HTMLAnchorElement.prototype.click = function () { saw.saved[this.download] = text; };
  // What is painted on which canvas, in its order.
  const painted = [], paints = CanvasRenderingContext2D.prototype, { fillRect, fillText } = paints;
  paints.fillRect = function (x, y, wide, tall) {
    painted.push({ canvas: this.canvas, x, y, wide, tall });
    fillRect.call(this, x, y, wide, tall);
  };
  paints.fillText = function (label, x, y) {
    painted.push({ canvas: this.canvas, label, x, y, wide: this.measureText(label).width });
    fillText.call(this, label, x, y);
  };
  const isReadable = (label) => {
    const at = painted.findLastIndex((paint) => paint.label === label);
    if (at < 1) return false;
    const text = painted[at], ground = painted[at - 1];
    const crosses = (paint) => paint.canvas === text.canvas && paint.tall === 1 && paint.wide > text.wide;
    return ground.x <= text.x && ground.x + ground.wide >= text.x + text.wide && ground.y <= text.y - 8
      && ground.y + ground.tall >= text.y && !painted.slice(at).some(crosses);
  };
  await wait(50);
  byId("pause").click();
  saw.paused = [byId("pause").textContent, byId("feed").textContent];
  seek(0);
  saw.first = serial();
  seek(byId("scrub").max);
  saw.last = serial();
  saw.atEnd = byId("time").textContent;
  seek(0);
  await wait(600);
  saw.stays = serial();
  // Slowly the next frame is not due yet; fast the last one is.
  speed("0.125");
  byId("pause").click();
  saw.goesOn = byId("pause").textContent;
  await wait(400);
  saw.slow = serial();
  speed("16");
  await wait(1200);
  saw.fast = serial();
  const box = byId("map").getBoundingClientRect();
  byId("map").dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + 2, clientY: box.top + 2 }));
  saw.about = byId("about").textContent;
  saw.readable = ["reserve", "low", "high", "idle"].filter(isReadable);
  byId("csv").click();
  byId("svg").click();
  const told = document.createElement("script");
  told.type = "application/json";
  told.id = "saw";
  // As in the page's own data, no character ends the element.
  told.textContent = JSON.stringify(saw).replace(/</g, "\\u003c");
  document.body.append(told);
})();
