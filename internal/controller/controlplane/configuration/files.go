package configuration

import (
	"fmt"
	"path"

	"k8s.io/client-go/tools/clientcmd"
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
	config, err := clientcmd.Load(content)
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
	named := map[string]string{"certificate-authority": cluster.CertificateAuthority}
	if user, is := config.AuthInfos[current.AuthInfo]; is {
		if user.Exec != nil || user.AuthProvider != nil {
			return fmt.Errorf("the user %q has a plugin, and servers have no programs to run: use a certificate or a token", current.AuthInfo)
		}
		named["client-certificate"], named["client-key"], named["tokenFile"] = user.ClientCertificate, user.ClientKey, user.TokenFile
	}
	for field, name := range named {
		if name == "" {
			continue
		}
		if _, err := beside.named(name); err != nil {
			return fmt.Errorf("%s %q: %w", field, name, err)
		}
	}
	return nil
}
