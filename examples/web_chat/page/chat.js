// A chat with the AI SDK: its state is drawn anew at each change.
import { AbstractChat, DefaultChatTransport } from "./ai-sdk.js";

const id = new URLSearchParams(location.search).get("chat") ?? crypto.randomUUID();
history.replaceState(null, "", `?chat=${encodeURIComponent(id)}`);

class State {
  #messages = [];
  #status = "ready";
  #error;
  constructor(messages) { this.#messages = messages; }
  get messages() { return this.#messages; }
  set messages(messages) { this.#messages = messages; draw(); }
  get status() { return this.#status; }
  set status(status) { this.#status = status; draw(); }
  get error() { return this.#error; }
  set error(error) { this.#error = error; draw(); }
  pushMessage = (message) => { this.messages = [...this.#messages, message]; };
  popMessage = () => { this.messages = this.#messages.slice(0, -1); };
  replaceMessage = (place, message) => { this.messages = this.#messages.with(place, structuredClone(message)); };
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(messages) {
    super({
      id,
      messages,
      state: new State(messages),
      transport: new DefaultChatTransport({ api: "chat", resumeStreamIsReplay: true }),
      sendAutomaticallyWhen: ({ messages }) => isAnswered(messages.at(-1)),
    });
  }
}

const questions = (message) => message.parts.filter((part) => part.state === "approval-requested");
const isAnswered = (message) =>
  message?.role === "assistant" && !questions(message).length &&
  message.parts.some((part) => part.state === "approval-responded");

function element(tag, name, ...content) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...content);
  return made;
}

function drawn(part) {
  switch (part.type) {
    case "text": return part.text.trim() ? [element("p", "", part.text)] : [];
    case "reasoning": return [element("p", "thinking", part.text)];
    case "data-agent": return [element("div", "agent", `${part.data.profile} ${part.data.task}: ${part.data.status}`)];
    case "dynamic-tool": return [drawnCall(part)];
    default: return [];
  }
}

function drawnCall(part) {
  const name = part.title ?? part.toolName;
  const call = element("div", "call", `${name}(${JSON.stringify(part.input)}) `);
  if (part.state === "approval-requested") {
    call.classList.add("question");
    const button = (label, approved) => {
      const made = element("button", "", label);
      made.onclick = () => chat.addToolApprovalResponse({ id: part.approval.id, approved });
      return made;
    };
    call.append(button(`Allow ${name}`, true), " ", button(`Deny ${name}`, false));
  } else {
    const shown = { "output-available": part.output, "output-error": part.errorText, "output-denied": "denied" };
    call.append("→ ", String(shown[part.state] ?? "…"));
  }
  return call;
}

function draw() {
  if (!chat) return;
  const articles = chat.messages.map((message) => element("article", message.role, ...message.parts.flatMap(drawn)));
  document.getElementById("messages").replaceChildren(...articles);
  const isBusy = ["submitted", "streaming"].includes(chat.status);
  document.getElementById("status").textContent = chat.error ? chat.error.message : isBusy ? "at work …" : "";
  document.getElementById("stop").disabled = !isBusy;
}

// What the server has is the truth, also after a restart or a lost connection.
async function comeBack() {
  try {
    const found = await fetch(`chat/${encodeURIComponent(id)}`);
    chat.messages = await found.json();
    document.body.dataset.ready = performance.now();
    await chat.resumeStream();
  } catch {  // the server restarts: look again
    setTimeout(comeBack, 1000);
    return;
  }
  lookAgain();
}

function lookAgain() {
  if (chat.status === "error") comeBack();
  else setTimeout(lookAgain, 1000);
}

let chat;
chat = new Chat([]);
document.getElementById("form").onsubmit = (event) => {
  event.preventDefault();
  const text = document.getElementById("text");
  chat.sendMessage({ text: text.value });
  text.value = "";
};
document.getElementById("stop").onclick = () => fetch(`chat/${encodeURIComponent(id)}/cancel`, { method: "POST" });
comeBack();
