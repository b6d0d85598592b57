// Package docs reads the project's pages: every Markdown file, with its anchors, links
// and fenced blocks. Its tests check what can be checked without a server. The flags that
// pages name are checked in cmd/tenantry, and the commands that they show are run by
// test/integration/process.
package docs
