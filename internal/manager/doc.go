// Package manager assembles the manager of a control plane: the scheme, the clients and the list
// of controllers. It runs beside the server in one process or on its own.
package manager
