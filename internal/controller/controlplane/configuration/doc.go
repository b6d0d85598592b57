// Package configuration checks the configuration files of a ControlPlane before its servers
// get them, as far as that can be decided without them, and says which of them servers read
// again when they change. It knows neither the host nor how files get to servers.
package configuration
