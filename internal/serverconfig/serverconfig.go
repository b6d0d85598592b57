// Package serverconfig reads the files that configure kube-apiserver, in servers and where they are checked before a
// server has them. What upstream would take without a word is an error: an unknown field, and a plugin of which nobody
// reads a configuration. It is a leaf.
package serverconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
)

// Plugins are the admission plugins that run in every server and take a configuration from any file.
func Plugins() []string {
	return []string{"MutatingAdmissionWebhook", "PodSecurity", "ResourceQuota", "SpacePolicy", "ValidatingAdmissionWebhook"}
}

// AllPlugins are those and the ones that take a configuration where a server has more: --enable-admission-plugins, or
// directories of policies.
func AllPlugins() []string {
	all := append(Plugins(), "EventRateLimit", "ImagePolicyWebhook", "MutatingAdmissionPolicy", "PodNodeSelector", "PodTolerationRestriction", "ValidatingAdmissionPolicy")
	slices.Sort(all)
	return all
}

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

// Decode reads one of upstream's configurations. An unknown field is an error.
func Decode[T runtime.Object](content []byte) (T, error) {
	var none T
	object, err := runtime.Decode(codecs.UniversalDecoder(), content)
	if err != nil {
		return none, err
	}
	typed, is := object.(T)
	if !is {
		return none, fmt.Errorf("its kind is %s, and must be %s", nameOf(object), nameOf(none))
	}
	return typed, nil
}

// nameOf is the kind of a configuration.
func nameOf(of any) string { return strings.TrimPrefix(fmt.Sprintf("%T", of), "*apiserver.") }

// CheckAuditPolicy returns what is wrong with an audit policy.
func CheckAuditPolicy(content []byte) error {
	// Upstream takes unknown fields and logs that it has, so that a misspelt rule is one for
	// everything.
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	if _, err := runtime.Decode(strict, content); err != nil {
		return err
	}
	_, err := auditpolicy.LoadPolicyFromBytes(content)
	return err
}

// CheckPlugins returns an error unless each plugin of a configuration is one of those that are known, and is there
// once, with one configuration. Upstream reads nothing else, and says nothing of it. It calls check
// with each plugin.
func CheckPlugins(c *apiserver.AdmissionConfiguration, known []string, check func(*apiserver.AdmissionPluginConfiguration) error) error {
	var seen []string
	for i := range c.Plugins {
		plugin := &c.Plugins[i]
		var err error
		switch {
		case slices.Contains(seen, plugin.Name):
			err = fmt.Errorf("name: %s is there twice", plugin.Name)
		case !slices.Contains(known, plugin.Name):
			err = fmt.Errorf("name: %q is no plugin that takes a configuration: those are %s", plugin.Name, strings.Join(known, ", "))
		case plugin.Configuration != nil && plugin.Path != "":
			err = errors.New("path: it has no effect beside configuration: leave one of them out")
		default:
			err = check(plugin)
		}
		if err != nil {
			return fmt.Errorf("plugins[%d].%w", i, err)
		}
		seen = append(seen, plugin.Name)
	}
	return nil
}
