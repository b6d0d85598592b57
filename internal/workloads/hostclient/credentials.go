package hostclient

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Credentials say by what a process acts on the host cluster. The zero value is that there is no host.
type Credentials struct {
	// Kubeconfig is a file.
	Kubeconfig string
	// InCluster is that the process is a pod of the host, and acts as its service account.
	InCluster bool
}

// AddFlags adds the flags. help is that of --host-kubeconfig.
func (c *Credentials) AddFlags(fs *pflag.FlagSet, help string) {
	fs.StringVar(&c.Kubeconfig, "host-kubeconfig", c.Kubeconfig, help)
	fs.BoolVar(&c.InCluster, "host-in-cluster", c.InCluster,
		"The host cluster is the one in which this process is a pod, and is asked by the token of its service account. It takes the place of --host-kubeconfig.")
}

// IsSet reports whether there is a host.
func (c Credentials) IsSet() bool { return c != Credentials{} }

// Config returns the configuration of clients of the host, nil if there is none.
func (c Credentials) Config() (*restclient.Config, error) {
	switch {
	case c.Kubeconfig != "" && c.InCluster:
		return nil, errors.New("--host-in-cluster takes the place of --host-kubeconfig: leave one of them out")
	case c.InCluster:
		config, err := restclient.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--host-in-cluster is for a pod with the token of a service account: %w", err)
		}
		return config, nil
	case c.Kubeconfig != "":
		config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if clientcmd.IsEmptyConfig(err) {
			err = errors.New("it names no cluster in its current context")
		}
		if err != nil {
			return nil, fmt.Errorf("reading --host-kubeconfig %s: %w", c.Kubeconfig, err)
		}
		return config, nil
	default:
		return nil, nil // there is no host
	}
}
