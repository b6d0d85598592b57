// Package kubeconfig writes the files that stock clients connect with: one
// cluster, one user with a client certificate or a command that logs in, and the URL of
// a space's root as the server, so that every ordinary request lands in that space.
package kubeconfig
