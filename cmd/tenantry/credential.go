package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/internal/keystone/credential"
)

func newCredentialCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "credential",
		Short: "Log in for kubectl and other clients",
		Long: `Commands that kubectl and other clients of Kubernetes call to log in, as exec
credential plugins. "tenantry kubeconfig TENANT --exec NAME" writes a kubeconfig that
calls one.

  tenantry credential keystone   log in to OpenStack's Keystone`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeystoneCredentialCommand())
	return cmd
}

func newKeystoneCredentialCommand() *cobra.Command {
	var o credential.Options
	cmd := &cobra.Command{
		Use:   "keystone",
		Short: "Log in to OpenStack's Keystone",
		Long: `Logs in to Keystone as OpenStack's clients do, and prints the token as an
ExecCredential of client.authentication.k8s.io/v1. It is made to be called by kubectl, by
a kubeconfig like this one:

  users:
  - name: keystone
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: tenantry
        args: [credential, keystone, --os-cloud=acme]
        interactiveMode: IfAvailable
        provideClusterInfo: false

Who logs in, and for which project, domain or system the token is, is said by a cloud of
clouds.yaml, which is looked for in the working directory, ~/.config/openstack and
/etc/openstack (then secure.yaml beside it), or by the variables OS_* of an openrc file.
Variables are read if no cloud is named by --os-cloud or OS_CLOUD and there is an
OS_AUTH_URL; they are not mixed with a cloud, but for OS_PASSCODE. Flags come before both; one
that says what the token is for replaces all that the cloud says of it. There are no flags
for secrets, since all users of a machine can read those. A password or passcode that
is missing is asked for if there is a terminal.

Tokens are kept until shortly before they expire, in files that the user alone can read.
Nothing else is: no password is written. Processes that need a token at once
make one log-in. A token that is asked for again within 30 seconds may have been refused
by the server, so Keystone is asked whether it is still good, at most every 5 seconds; if
not, there is a new log-in. A log-in that Keystone refuses is not tried again for
10 seconds.`,
		Example: `  # A kubeconfig for the project "web" of the cloud "acme" in clouds.yaml
  tenantry kubeconfig acme --exec keystone -- --os-cloud acme --os-project-name web > acme.kubeconfig

  # See what kubectl gets, by an openrc file
  . openrc
  tenantry credential keystone

  # Log in for a domain, without keeping the token
  tenantry credential keystone --os-cloud acme --os-domain-name acme --no-cache`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Timeout <= 0 {
				return fmt.Errorf("--timeout is %s, and must be positive", o.Timeout)
			}
			if o.NoCache && o.CacheDir != "" {
				return errors.New("--no-cache keeps no tokens: leave --cache-dir out")
			}
			o.Settings = credentialSettings(cmd.Flags())
			o.Ask = credential.Terminal()
			return o.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	addKeystoneCredentialFlags(cmd.Flags(), &o)
	return cmd
}

func addKeystoneCredentialFlags(fs *pflag.FlagSet, o *credential.Options) {
	fs.StringVar(&o.Cloud, "os-cloud", "", "Name of a cloud in clouds.yaml. By default OS_CLOUD or, without OS_AUTH_URL, the only one that there is.")
	fs.StringVar(&o.ConfigFile, "os-client-config-file", "", "File of clouds, in place of the clouds.yaml that is found. By default OS_CLIENT_CONFIG_FILE.")
	for _, setting := range credential.Settings {
		fs.String(setting.Flag(), "", setting.Usage)
	}
	fs.StringVar(&o.CacheDir, "cache-dir", "", "Directory where tokens are kept. By default tenantry/keystone in XDG_CACHE_HOME or ~/.cache.")
	fs.BoolVar(&o.NoCache, "no-cache", false, "Log in each time, and keep no token.")
	fs.DurationVar(&o.Timeout, "timeout", 30*time.Second, "For how long to wait for Keystone.")
}

// credentialSettings returns the settings that flags say.
func credentialSettings(flags *pflag.FlagSet) map[string]string {
	settings := map[string]string{}
	for _, setting := range credential.Settings {
		if flag := flags.Lookup(setting.Flag()); flag.Changed {
			settings[setting.Name] = flag.Value.String()
		}
	}
	return settings
}
