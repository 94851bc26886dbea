// An option is one word of the index (`separator` in mkdocs.yml), and is typed as it is written:
// --gpu-memory. The search reads hyphens as "not" and as gaps, unless they are escaped: once for
// each of the two times that it reads the question.
const QUERY = 2;
const post = Worker.prototype.postMessage;
const option = (_, gap, name) => gap + name.replaceAll("-", "\\\\\\-");
Worker.prototype.postMessage = function (message, ...rest) {
  if (message && message.type === QUERY)
    message = { ...message, data: message.data.replace(/(^|[\s"])--?([a-z][\w-]*)(=\S*)?/g, option) };
  return post.call(this, message, ...rest);
};
