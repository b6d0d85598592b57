package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// checkFiles returns an error that names the flag and the file for what can be said so early of files that flags of
// upstream name: upstream says that there is no such file, or no configuration, and not where it has looked.
func checkFiles(kube *options.ServerRunOptions) error {
	type file struct {
		flag, path string
		read       func(path string) error
	}
	authentication, authorization := kube.Authentication, kube.Authorization
	files := []file{
		{"authentication-config", authentication.AuthenticationConfigFile, exists},
		{"authorization-config", authorization.AuthorizationConfigurationFile, exists},
		{"authorization-policy-file", authorization.PolicyFile, exists},
		{"authorization-webhook-config-file", authorization.WebhookConfigFile, isKubeconfig},
	}
	if authentication.TokenFile != nil {
		files = append(files, file{"token-auth-file", authentication.TokenFile.TokenFile, exists})
	}
	if authentication.WebHook != nil {
		files = append(files, file{"authentication-token-webhook-config-file", authentication.WebHook.ConfigFile, isKubeconfig})
	}
	var errs []error
	for _, f := range files {
		if f.path == "" {
			continue
		}
		err := f.read(f.path)
		if of, is := errors.AsType[*fs.PathError](err); is {
			err = of.Err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %s: %w", f.flag, f.path, err))
		}
	}
	return errors.Join(errs...)
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// isKubeconfig returns an error unless a file says where a webhook is.
func isKubeconfig(path string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil { // relative to the file, as upstream reads it
		return err
	}
	if _, err = clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig(); clientcmd.IsEmptyConfig(err) {
		return errors.New("it has no cluster, user and context: it is to be a kubeconfig that says where the webhook is")
	}
	return err
}
