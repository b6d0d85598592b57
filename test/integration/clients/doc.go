// Package clients runs programs made with client-go and controller-runtime,
// unchanged, against spaces: at the space root and on the short path, in two
// spaces at once.
package clients
