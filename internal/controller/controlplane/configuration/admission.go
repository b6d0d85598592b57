package configuration

import (
	"bytes"
	"errors"
	"fmt"

	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/apis/apiserver"
	podsecurityload "k8s.io/pod-security-admission/admission/api/load"
	podsecurityvalidation "k8s.io/pod-security-admission/admission/api/validation"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/serverconfig"
	"github.com/tenantry/tenantry/internal/yamltext"
)

// checksOf have what can be known of the configurations of plugins.
var checksOf = map[string]func(content []byte, beside sectionFiles) error{
	"SpacePolicy": func(content []byte, _ sectionFiles) error {
		_, err := configv1alpha1.ParseSpacePolicyConfiguration(content)
		return err
	},
	"PodSecurity": func(content []byte, _ sectionFiles) error {
		c, err := podsecurityload.LoadFromData(content)
		if err != nil {
			return err
		}
		return podsecurityvalidation.ValidatePodSecurityConfiguration(c).ToAggregate()
	},
	"MutatingAdmissionWebhook":   checkWebhooks,
	"ValidatingAdmissionWebhook": checkWebhooks,
}

// checkWebhooks checks as who servers call the webhooks of spaces.
func checkWebhooks(content []byte, beside sectionFiles) error {
	c, err := webhookconfig.LoadConfig(bytes.NewReader(content))
	if err != nil {
		return err
	}
	if c.StaticManifestsDir != "" {
		return errors.New("staticManifestsDir: servers have no such directory: leave it out")
	}
	if c.KubeConfigFile == "" {
		return nil
	}
	users, err := beside.absolute(c.KubeConfigFile)
	if err == nil {
		err = checkUsers(users, beside)
	}
	if err != nil {
		return fmt.Errorf("kubeConfigFile: %q: %w", c.KubeConfigFile, err)
	}
	return nil
}

func checkAdmission(content []byte, beside sectionFiles) error {
	c, err := serverconfig.Decode[*apiserver.AdmissionConfiguration](content)
	if err != nil {
		return err
	}
	return serverconfig.CheckPlugins(c, serverconfig.Plugins(), func(plugin *apiserver.AdmissionPluginConfiguration) error {
		return checkPlugin(plugin, beside)
	})
}

func checkPlugin(plugin *apiserver.AdmissionPluginConfiguration, beside sectionFiles) error {
	var content []byte
	switch {
	case plugin.Configuration != nil:
		content = plugin.Configuration.Raw
	case plugin.Path != "":
		var err error
		if content, err = beside.named(plugin.Path); err != nil {
			return fmt.Errorf("path: %q: %w", plugin.Path, err)
		}
	}
	if len(content) == 0 {
		return nil
	}
	err := yamltext.Check(content)
	if check := checksOf[plugin.Name]; err == nil && check != nil {
		err = check(content, beside)
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}
