"use strict";
const told = document.getElementById("told");
let wrong = ""; // with the button that was pressed last
async function look() {
  try {
    const reply = await fetch("/", { cache: "no-store" });
    if (!reply.ok) throw new Error(String(reply.status));
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));
    const held = document.activeElement && document.activeElement.dataset.act;
    document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (held) document.querySelector(`[data-act="${held}"]`)?.focus();
    told.textContent = wrong || page.getElementById("told").textContent;
  } catch (error) {
    told.textContent = "The dock does not answer.";
  }
}
document.addEventListener("click", async (event) => {
  const path = event.target.dataset && event.target.dataset.act;
  if (!path) return;
  event.target.disabled = true;
  const reply = await fetch(path, { method: "POST" }).catch(() => null);
  wrong = "";
  if (reply && !reply.ok) wrong = await reply.json().then((said) => said.error, () => `The dock answers ${reply.status}.`);
  await look();
});
setInterval(look, 2000);
