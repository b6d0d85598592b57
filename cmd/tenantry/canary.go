package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/internal/workloads/canary"
)

// newCanaryCommand returns what the syncer runs in two pods of a host cluster, to see whether that enforces network
// policies. It is for nobody else.
func newCanaryCommand() *cobra.Command {
	server := ""
	dial := &cobra.Command{
		Use:   "dial ADDRESS DENIED...",
		Short: "End with 0 once the first address can be reached, and no other",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), canary.Patience)
			defer cancel()
			if err := canary.Dial(ctx, args[0], args[1:]); err != nil || server == "" {
				return err
			}
			return canary.Seen(cmd.Context(), server)
		},
	}
	dial.Flags().StringVar(&server, "dns", "", "Address and port of DNS, which is then to see this pod by an address of its own.")
	cmd := &cobra.Command{Use: "canary", Short: "Test the network of a host cluster, in pods of the syncer", Hidden: true}
	cmd.AddCommand(&cobra.Command{
		Use:   "listen ADDRESS...",
		Short: "Accept connections, and close them",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return canary.Listen(cmd.Context(), args) },
	}, dial)
	return cmd
}
