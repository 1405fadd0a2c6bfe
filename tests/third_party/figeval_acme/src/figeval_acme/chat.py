"""The protocol of a server with chat models, of which figeval makes a model with a budget, an archive and retries."""

import figeval


class AcmeChat(figeval.ChatApi):
    """`POST /chat` with `{"model": …, "turns": […]}` answers `{"says": …, "read": 12, "wrote": 3}`."""

    url = "http://127.0.0.1:8080"
    path = "/chat"
    key_variable = "ACME_API_KEY"

    def body(self, prompt, options):
        turns = [[message.role, message.content] for message in prompt.messages]
        return {"model": options.model, "turns": turns, "most": options.max_tokens}

    def read(self, response):
        return figeval.ApiAnswer(text=response["says"], tokens_in=response["read"], tokens_out=response["wrote"])


backend = figeval.api_backend(AcmeChat)
