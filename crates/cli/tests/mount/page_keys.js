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
  byId("csv").click();
  byId("svg").click();
  const told = document.createElement("script");
  told.type = "application/json";
  told.id = "saw";
  // As in the page's own data, no character ends the element.
  told.textContent = JSON.stringify(saw).replace(/</g, "\\u003c");
  document.body.append(told);
})();
