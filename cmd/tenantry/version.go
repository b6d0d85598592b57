package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/version"
)

func newVersionCommand() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of Tenantry, its commit, and the version of Kubernetes",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout(), output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Format: json or yaml. Text by default.")
	return cmd
}

func printVersion(w io.Writer, format string) error {
	info := version.Get()
	var data []byte
	var err error
	switch format {
	case "":
		commit := info.Commit
		switch {
		case commit == "":
			commit = "unknown"
		case info.Modified:
			commit += " (modified)"
		}
		data = fmt.Appendf(nil, "Tenantry:   %s\nCommit:     %s\nKubernetes: %s\nGo:         %s %s\n",
			info.Version, commit, info.Kubernetes, info.Go, info.Platform)
	case "json":
		if data, err = json.MarshalIndent(info, "", "  "); err == nil {
			data = append(data, '\n')
		}
	case "yaml":
		data, err = yaml.Marshal(info)
	default:
		return fmt.Errorf("--output is %q, and must be json or yaml", format)
	}
	if err != nil {
		return fmt.Errorf("encoding the version: %w", err)
	}
	_, err = w.Write(data)
	return err
}
