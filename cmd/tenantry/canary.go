package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/internal/workloads/canary"
)

// newCanaryCommand returns what the syncer runs in two pods of a host cluster, to see whether that enforces network
// policies. It is for nobody else.
func newCanaryCommand() *cobra.Command {
	server, ipv6, packets, word := "", "", "", ""
	dial := &cobra.Command{
		Use:   "dial ADDRESS DENIED...",
		Short: "End with 0 once the first address can be reached, and no other",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := dialCanary(cmd.Context(), args); err != nil {
				return err
			}
			if ipv6 != "" {
				if err := checkIPv6(cmd.Context(), ipv6, word, args); err != nil {
					return err
				}
			}
			if server == "" {
				return nil
			}
			return canary.Seen(cmd.Context(), server)
		},
	}
	dial.Flags().StringVar(&server, "dns", "", "Address and port of DNS, which is then to see this pod by an address of its own.")
	dial.Flags().StringVar(&ipv6, "ipv6", "", "Address of IPv6, and port for packets, of the pod that listens: the same holds there, and no packet arrives that is sent in another's name.")
	listen := &cobra.Command{
		Use:   "listen ADDRESS...",
		Short: "Accept connections, and close them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canary.Listen(cmd.Context(), args, packets, word)
		},
	}
	listen.Flags().StringVar(&packets, "packets", "", "Address and port at which packets arrive, of which those who connect are told.")
	cmd := &cobra.Command{Use: "canary", Short: "Test the network of a host cluster, in pods of the syncer", Hidden: true}
	cmd.PersistentFlags().StringVar(&word, "word", "", "What the packets begin with that the one that listens takes: both have the same.")
	cmd.AddCommand(listen, dial)
	return cmd
}

func dialCanary(ctx context.Context, addresses []string) error {
	ctx, cancel := context.WithTimeout(ctx, canary.Patience)
	defer cancel()
	return canary.Dial(ctx, addresses[0], addresses[1:])
}

// checkIPv6 does with an address of IPv6 what was done with others, and looks whether packets arrive that are sent to
// its port in another's name.
func checkIPv6(ctx context.Context, ipv6, word string, addresses []string) error {
	host, _, err := net.SplitHostPort(ipv6)
	if err != nil {
		return fmt.Errorf("--ipv6: %w", err)
	}
	same := make([]string, len(addresses))
	for i := range addresses {
		_, port, err := net.SplitHostPort(addresses[i])
		if err != nil {
			return fmt.Errorf("reading an address: %w", err)
		}
		same[i] = net.JoinHostPort(host, port)
	}
	if same[0] != addresses[0] {
		if err := dialCanary(ctx, same); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, canary.Patience)
	defer cancel()
	return canary.Sources(ctx, ipv6, same[0], word)
}
