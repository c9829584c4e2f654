/**
 * A small virtual DOM. Views say what is to be seen; what is there is changed into that, so focus, selection and scroll stay.
 *
 * Text is only ever text: there is no way to put markup in, so nothing that a record holds can become part of the page.
 */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "open", "indeterminate", "hidden", "readOnly"]);
const ABOUT_THE_NODE = new Set(["key", "ref"]);

/** Elements of a page that have been drawn: what they were drawn from. */
const drawn = new WeakMap();

export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, key: props?.key ?? null, children: nodes(children), node: null };
}

/** Draw these into an element, in the place of what was drawn there before. */
export function render(root, ...content) {
  patchChildren(root, nodes(content), false);
}

function nodes(children) {
  return children.flat(Infinity).map((child) => {
    if (child !== null && typeof child === "object") return child;
    // What is not there keeps its place: so its neighbours keep theirs.
    const text = child === null || child === undefined || child === false || child === true ? "" : String(child);
    return { tag: "#text", text, key: null, node: null };
  });
}

function patchChildren(parent, next, isSvg) {
  const previous = drawn.get(parent) ?? [];
  const byKey = new Map(previous.filter((each) => each.key !== null).map((each) => [each.key, each]));
  const others = previous.filter((each) => each.key === null);
  const kept = new Set();
  for (const vnode of next) {
    const match = vnode.key === null ? others.shift() : byKey.get(vnode.key);
    if (match && match.tag === vnode.tag && !kept.has(match)) {
      kept.add(match);
      patch(match, vnode, isSvg);
    } else {
      vnode.node = create(vnode, isSvg);
    }
  }
  for (const each of previous) if (!kept.has(each)) each.node.remove();
  let at = parent.firstChild;
  for (const vnode of next) {
    if (vnode.node === at) at = at.nextSibling;
    else parent.insertBefore(vnode.node, at);
  }
  drawn.set(parent, next);
}

function create(vnode, isSvg) {
  if (vnode.tag === "#text") return document.createTextNode(vnode.text);
  const inSvg = isSvg || vnode.tag === "svg";
  const node = inSvg ? document.createElementNS(SVG, vnode.tag) : document.createElement(vnode.tag);
  setProps(node, {}, vnode.props, vnode, inSvg);
  vnode.props.ref?.(node);
  return node;
}

function patch(before, vnode, isSvg) {
  vnode.node = before.node;
  if (vnode.tag === "#text") {
    if (before.text !== vnode.text) vnode.node.data = vnode.text;
    return;
  }
  setProps(vnode.node, before.props, vnode.props, vnode, isSvg || vnode.tag === "svg");
}

function setProps(node, before, after, vnode, isSvg) {
  const isOwn = vnode.tag.includes("-"); // such an element draws its own content, from properties
  for (const name of Object.keys(before)) if (!(name in after)) setProp(node, name, undefined, isOwn);
  const late = [];
  for (const [name, value] of Object.entries(after)) {
    if (ABOUT_THE_NODE.has(name)) continue;
    if (PROPERTIES.has(name)) late.push([name, value]);
    else if (before[name] !== value) setProp(node, name, value, isOwn);
  }
  if (!isOwn) patchChildren(node, vnode.children, isSvg);
  for (const [name, value] of late) if (node[name] !== value) node[name] = value ?? ""; // a select's value needs its options
}

function setProp(node, name, value, isOwn) {
  if (name === "style") return setStyle(node, value ?? {});
  if (name.startsWith("on") || (isOwn && name !== "class")) {
    node[name] = value ?? null;
  } else if (PROPERTIES.has(name)) {
    node[name] = typeof node[name] === "boolean" ? false : "";
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else {
    if (name === "href" && !/^(#|https?:|blob:|[\w./-]*$)/.test(value)) throw new TypeError(`no address: ${value}`);
    node.setAttribute(name, value === true ? "" : value);
  }
  return undefined;
}

/** One by one: the content security policy refuses the attribute. */
function setStyle(node, style) {
  for (const name of [...node.style]) if (!(name in style)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
}
