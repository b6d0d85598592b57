package configuration

import (
	"errors"
	"fmt"
	"path"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tenantry/tenantry/internal/yamltext"
)

// sectionFiles are the files that those of a section may name.
type sectionFiles struct {
	section Section
	files   Files
}

// absolute returns the file at an absolute path.
func (s sectionFiles) absolute(name string) ([]byte, error) {
	dir := path.Join(Dir, string(s.section))
	if !path.IsAbs(name) {
		return nil, fmt.Errorf("it must be %s/KEY, for a key of the ConfigMap or Secret", dir)
	}
	return s.named(name)
}

// named returns the file at a path that may begin in the directory of the section. Others in
// the servers' file system are their own.
func (s sectionFiles) named(name string) ([]byte, error) {
	dir := path.Join(Dir, string(s.section))
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	in, key := path.Split(path.Clean(name))
	content, is := s.files[key]
	if path.Clean(in) != dir || !is {
		return nil, fmt.Errorf("there is no such file: name another key of the ConfigMap or Secret, which servers have as %s/KEY", dir)
	}
	return content, nil
}

// checkKubeconfig checks by which file a server reaches a webhook.
func checkKubeconfig(content []byte, beside sectionFiles) error {
	config, err := readKubeconfig(content)
	if err != nil {
		return err
	}
	current, is := config.Contexts[config.CurrentContext]
	if !is {
		return fmt.Errorf("current-context %q is not one of its contexts", config.CurrentContext)
	}
	cluster, is := config.Clusters[current.Cluster]
	if !is || cluster.Server == "" {
		return fmt.Errorf("the cluster %q of its context has no server", current.Cluster)
	}
	if err := beside.have("certificate-authority", cluster.CertificateAuthority); err != nil {
		return err
	}
	return checkUser(current.AuthInfo, config.AuthInfos[current.AuthInfo], beside)
}

// checkUsers checks by which file a server logs in to webhooks: each of its users may be used.
func checkUsers(content []byte, beside sectionFiles) error {
	config, err := readKubeconfig(content)
	if err != nil {
		return err
	}
	for name, user := range config.AuthInfos {
		if err := checkUser(name, user, beside); err != nil {
			return err
		}
	}
	return nil
}

func readKubeconfig(content []byte) (*api.Config, error) {
	if err := yamltext.Check(content); err != nil {
		return nil, err
	}
	return clientcmd.Load(content)
}

// checkUser refuses a user who runs a program, or whose files are the servers' own.
func checkUser(name string, user *api.AuthInfo, beside sectionFiles) error {
	if user == nil {
		return nil
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return fmt.Errorf("the user %q has a plugin, and servers have no programs to run: use a certificate or a token", name)
	}
	return errors.Join(beside.have("client-certificate", user.ClientCertificate), beside.have("client-key", user.ClientKey), beside.have("tokenFile", user.TokenFile))
}

// have reports if a field names a file that is not there.
func (s sectionFiles) have(field, name string) error {
	if name == "" {
		return nil
	}
	if _, err := s.named(name); err != nil {
		return fmt.Errorf("%s %q: %w", field, name, err)
	}
	return nil
}
