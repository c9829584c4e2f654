/** Users, ACLs and quotas, where security is on. */

import { all, del, path, post } from "../api.js";
import { confirm, openDialog } from "../components/dialog.js";
import { badge, button, field, flushCard, formEnd, head, input, select } from "../components/parts.js";
import { quotaDialog, quotasTable } from "../components/quotas.js";
import { empty, problemBox, show } from "../components/states.js";
import { table, tableState } from "../components/table.js";
import { toast } from "../components/toast.js";
import { h } from "../vdom.js";

const OPERATIONS = [
  "all",
  "read",
  "write",
  "create",
  "delete",
  "alter",
  "describe",
  "cluster_action",
  "describe_configs",
  "alter_configs",
  "idempotent_write",
];
const RESOURCES = ["topic", "group", "cluster", "transactional_id", "delegation_token", "user"];

export default function security(page) {
  page.title = "Security";
  const list = (address) => page.resource((signal) => all(address, { limit: 500 }, { signal }), { every: 10_000 });
  const users = list("/v1/users");
  const acls = list("/v1/acls");
  const quotas = list("/v1/quotas");
  const states = { users: tableState("user"), acls: tableState("principal"), quotas: tableState("entity") };
  const isOff = (resource) => resource.error?.code === "SECURITY_DISABLED";
  const section = (title, resource, draw, add) => [
    h("div", { class: "toolbar" }, h("h2", { class: "grow" }, title), add),
    flushCard(
      null,
      isOff(resource) && resource.data === null
        ? empty(
            "Security is disabled",
            "All operations are allowed. An authorizer (authorizer.class.name) and listeners with SASL or TLS enable security.",
          )
        : resource.error && resource.data === null
          ? problemBox(resource.error, resource.reload)
          : show(resource, draw, 3),
    ),
  ];
  return () => [
    head({ title: "Security" }),
    section(
      "Users",
      users,
      (items) => usersTable(page, states.users, items, users),
      button("Add a user", () => addUser(users), { tone: "small", symbol: "plus" }),
    ),
    section(
      "ACLs",
      acls,
      (items) => aclsTable(page, states.acls, items, acls),
      button("Add an ACL", () => addAcl(acls), { tone: "small", symbol: "plus" }),
    ),
    section(
      "Quotas",
      quotas,
      (items) => quotasTable(page, states.quotas, items, quotas),
      button("Add a quota", () => quotaDialog(quotas), { tone: "small", symbol: "plus" }),
    ),
  ];
}

function usersTable(page, state, items, users) {
  if (items.length === 0) return empty("No users", "Users with SCRAM credentials are listed here.");
  const remove = async (row) => {
    const isDone = await confirm({
      title: `Delete user ${row.name}?`,
      text: "The user can no longer authenticate.",
      action: "Delete the user",
      typed: row.name,
      run: () => del(path`/v1/users/${row.name}`),
    });
    if (isDone) toast(`${row.name} is deleted`);
    users.reload();
  };
  const columns = [
    { name: "user", label: "User", class: "name fill", value: (row) => row.name, cell: (row) => row.name },
    {
      name: "mechanisms",
      label: "Mechanisms",
      cell: (row) => row.credentials.map((each) => [badge(each.mechanism), " "]),
    },
    {
      name: "actions",
      label: "",
      class: "fit",
      cell: (row) => button("Delete", () => remove(row), { tone: "small danger", label: `Delete ${row.name}` }),
    },
  ];
  return table({ page, state, label: "Users", columns, rows: items, key: (row) => row.name });
}

function aclsTable(page, state, items, acls) {
  if (items.length === 0) return empty("No ACLs");
  const remove = async (row) => {
    const isDone = await confirm({
      title: "Delete this ACL?",
      text: `${row.permission} ${row.operation} for ${row.principal} on ${row.resourceType} ${row.resourceName}.`,
      action: "Delete the ACL",
      run: () => del("/v1/acls", undefined, { query: row }),
    });
    if (isDone) toast("The ACL is deleted");
    acls.reload();
  };
  const columns = [
    {
      name: "principal",
      label: "Principal",
      class: "name",
      value: (row) => row.principal,
      cell: (row) => row.principal,
    },
    { name: "permission", label: "", cell: (row) => badge(row.permission, row.permission === "deny" ? "bad" : "good") },
    { name: "operation", label: "Operation", value: (row) => row.operation, cell: (row) => row.operation },
    {
      name: "resource",
      label: "On",
      value: (row) => `${row.resourceType} ${row.resourceName}`,
      cell: (row) => [
        `${row.resourceType} `,
        h("code", null, row.resourceName),
        row.patternType === "prefixed" ? "…" : "",
      ],
    },
    { name: "host", label: "From", isWide: true, cell: (row) => row.host },
    {
      name: "actions",
      label: "",
      class: "fit",
      isWide: true,
      cell: (row) =>
        button("Delete", () => remove(row), { tone: "small danger", label: `Delete the ACL of ${row.principal}` }),
    },
  ];
  return table({ page, state, label: "ACLs", columns, rows: items, key: (row) => JSON.stringify(row) });
}

function addUser(users) {
  const given = { name: "", password: "", mechanism: "SCRAM-SHA-512" };
  const save = async () => {
    await post("/v1/users", { name: given.name, password: given.password, mechanisms: [given.mechanism] });
    toast(`${given.name} is added`);
    users.reload();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(save)) },
      field("User", input(given, "name", { required: true, autocomplete: "off" })),
      field("Password", input(given, "password", { type: "password", required: true, autocomplete: "new-password" })),
      field("Mechanism", select(given, "mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])),
      formEnd(dialog, "Add"),
    );
  openDialog({ title: "Add a user", draw });
}

function addAcl(acls) {
  const given = {
    principal: "User:",
    permission: "allow",
    operation: "read",
    resourceType: "topic",
    resourceName: "",
    patternType: "literal",
    host: "*",
  };
  const save = async () => {
    const { resourceName, ...rest } = given;
    await post("/v1/acls", { acls: [given.resourceType === "cluster" ? rest : { ...rest, resourceName }] });
    toast("The ACL is added");
    acls.reload();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(save)) },
      h(
        "div",
        { class: "fields" },
        field("Principal", input(given, "principal", { required: true, "data-first": true })),
        field("Permission", select(given, "permission", ["allow", "deny"])),
        field("Operation", select(given, "operation", OPERATIONS)),
        field("On", select(given, "resourceType", RESOURCES, dialog.redraw)),
        given.resourceType === "cluster"
          ? null
          : field("Resource name", input(given, "resourceName", { required: true }), { hint: "* for all" }),
        field(
          "Name is",
          select(given, "patternType", [
            ["literal", "whole"],
            ["prefixed", "a beginning"],
          ]),
        ),
        field("From host", input(given, "host", { required: true })),
      ),
      formEnd(dialog, "Add"),
    );
  openDialog({ title: "Add an ACL", draw });
}
